upstream "a" {
  balance "weighted_round_robin" {
    key = remote_addr
  }
  server "10.0.0.1:6000" {}
}
listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
}
