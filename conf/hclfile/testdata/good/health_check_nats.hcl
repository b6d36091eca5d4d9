upstream "a" {
  server "10.0.0.1:4222" {}
  server "10.0.0.2:4222" {}

  health_check "nats" {}
  health_check "nats" {
    user     = "weir"
    password = file("password")
    tls {}
  }
}

listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
}
