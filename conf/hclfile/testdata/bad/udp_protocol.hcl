upstream "a" {
  server "10.0.0.1:5000" {}
}
listener "capitals" {
  listen   = ["0.0.0.0:1"]
  protocol = "UDP"
  upstream = "a"
  udp {}
}
listener "other" {
  listen          = ["0.0.0.0:1"]
  protocol        = "quic"
  upstream        = "a"
  connect_timeout = "1s"
  udp {}
}
listener "list" {
  listen   = ["0.0.0.0:1"]
  protocol = ["udp"]
  upstream = "a"
}
