upstream "a" {
  server "10.0.0.1:7000" {}
  server "10.0.0.2:7000" {}
}
listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
  profile  = "generic"
}
