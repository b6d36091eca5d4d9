upstream "mixed" {
  server "10.0.0.1:5000" {}
  server "unix:/run/a.sock" { backup = true }
}
listener "a" {
  listen   = ["0.0.0.0:5000", "unix:/run/weir.sock"]
  protocol = "udp"
  upstream = "mixed"
}
listener "b" {
  listen   = ["0.0.0.0:5000", "unix:/run/weir.sock"]
  upstream = "mixed"
}
