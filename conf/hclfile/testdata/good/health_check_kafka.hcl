upstream "a" {
  server "10.0.0.1:9092" {}
  server "10.0.0.2:9092" {}

  health_check "kafka" {}
  health_check "kafka" {
    user     = "weir"
    password = file("password")
    tls {}
  }
}

listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
}
