upstream "a" {
  server "10.0.0.1:6000" {}
  server "10.0.0.2:6000" {}

  health_check "tcp" {}
}

listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
}
