locals {
  a = remote_addr
  b = "${server_port}"
}
upstream "a" {
  congestion = "x${protocol}"
  server "10.0.0.1:80" {
    name   = hostname
    weight = connection
    max_fails = ssl_preread_server_name
  }
}
log {
  fields = [time, remote_addr]
}
listener "a" {
  listen   = ["127.0.0.1:${server_port}"]
  upstream = upstream
}
