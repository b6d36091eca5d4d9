# No TCP: neither the accept queue nor pipes matter, and a port is not one for
# each server.
worker {
  max_sessions = 30000
}
upstream "game" {
  server "10.0.0.1:7777" {}
  server "10.0.0.2:7777" {}
}
listener "game" {
  listen   = ["0.0.0.0:7777"]
  protocol = "udp"
  upstream = "game"
}
