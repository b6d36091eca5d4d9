upstream "game" {
  server "10.0.0.1:7777" {}
}
listener "a" {
  listen   = ["0.0.0.0:7777"]
  protocol = "udp"
  upstream = "game"
  udp { max_sessions = 9000 }
}
listener "b" {
  listen   = ["0.0.0.0:7778"]
  protocol = "udp"
  upstream = "game"
  udp { max_sessions = 20000 }
}
