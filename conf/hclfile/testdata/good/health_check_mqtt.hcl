upstream "a" {
  server "10.0.0.1:1883" {}
  server "10.0.0.2:1883" {}

  health_check "mqtt" {}
  health_check "mqtt" {
    user     = "weir"
    password = file("password")
    tls {}
  }
}

listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
}
