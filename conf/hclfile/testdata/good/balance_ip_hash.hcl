upstream "a" {
  balance "ip_hash" {}

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

listener "a" {
  listen   = ["127.0.0.1:1000"]
  upstream = "a"
}
