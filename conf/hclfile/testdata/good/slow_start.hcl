upstream "a" {
  server "10.0.0.1:6000" { slow_start = "30s" }
  server "10.0.0.2:6000" { slow_start = "off" }
}
upstream "b" {
  balance "hash" { key = remote_addr }
  server "10.0.0.3:6000" { slow_start = "30s" }
  server "10.0.0.4:6000" { slow_start = "1m" }
}

listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
}
listener "b" {
  listen   = ["127.0.0.1:9998"]
  upstream = "b"
}
