upstream "a" {
  server "10.0.0.1:53" {}
  server "localhost:5300" {}
}
upstream "b" {
  server "localhost:5300" {}
}
listener "tcp" {
  listen   = ["0.0.0.0:53"]
  upstream = "b"
}
listener "udp" {
  listen   = ["0.0.0.0:53", "0.0.0.0:5300"]
  protocol = "udp"
  upstream = "a"
}
listener "udp-again" {
  listen   = ["0.0.0.0:50-60"]
  protocol = "udp"
  upstream = "a"
}
