upstream "a" {
  server "10.0.0.1:6000" {}
  server "10.0.0.2:6000" {}

  health_check "tcp" {
    interval = "5s"
    timeout  = "250ms"
    rise     = 1
    fall     = 10
    initial  = "up"
    port     = 8080
  }
}

listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
}
