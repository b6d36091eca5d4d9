resolver {
  servers = ["127.0.0.1", "::1", "dns.example:53", "127.0.0.1:0", "[::1]:53", "[::1]:53", "a b"]
  timeout = "off"
  valid   = "off"
  ipv6    = true
}
resolver {
  servers = []
}
upstream "a" {
  server "10.0.0.1:6000" {}
}
listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
}
