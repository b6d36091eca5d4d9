upstream "a" {
  balance "ip_hash" {}
  server_file = "peers.json"
}
upstream "b" {
  balance "hash" { key = "same" }
  server "10.0.0.1:6000" { max_fails = 3 }
  server_file = "peers.json"
}
upstream "c" {
  balance "first" {}
  server "10.0.0.2:6000" {}
  server "10.0.0.3:6000" {}
  server_file = "peers.json"
}
listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
}
listener "b" {
  listen   = ["127.0.0.1:9998"]
  upstream = "b"
}
listener "c" {
  listen   = ["127.0.0.1:9997"]
  upstream = "c"
}
