# One that is there, and one that will be.
upstream "a" {
  server_file = "peers.json"
}
upstream "b" {
  server "10.0.0.1:6000" { backup = true }
  server_file = "later/peers.json"
}

listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
}
listener "b" {
  listen   = ["127.0.0.1:9998"]
  upstream = "b"
}
