upstream "a" {
  server_file = ""
}
upstream "b" {
  server_file = "."
}
upstream "c" {
  server_file = "/etc/weir/"
}
upstream "d" {
  server_file = ["peers.json"]
}
upstream "e" {
}
listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
}
