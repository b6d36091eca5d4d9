upstream "a" {
  server "10.0.0.1:4222" {}
  server "10.0.0.2:4222" {}
}
listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
  profile  = "nats"
}
