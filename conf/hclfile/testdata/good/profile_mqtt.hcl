upstream "a" {
  server "10.0.0.1:1883" {}
  server "10.0.0.2:1883" {}
}
listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
  profile  = "mqtt"
}
