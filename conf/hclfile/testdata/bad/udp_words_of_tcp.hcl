upstream "a" {
  server "10.0.0.1:5000" {}
}
listener "a" {
  listen   = ["0.0.0.0:5000"]
  protocol = "udp"
  upstream = "a"

  connect_timeout    = "3s"
  idle_timeout       = "30s"
  half_close_timeout = "1m"
  dead_peer_timeout  = "30s"
  congestion         = "cubic"

  next_upstream {
    tries = 2
  }
}
listener "b" {
  listen       = ["0.0.0.0:5001"]
  protocol     = "udp"
  upstream     = "a"
  idle_timeout = "off"
}
