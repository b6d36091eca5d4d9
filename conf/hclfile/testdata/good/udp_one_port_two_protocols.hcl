# A server may have the address of a listener of the other protocol, and a key
# of the protocol tells the sessions of an upstream apart that has both.
upstream "dns" {
  balance "hash" { key = protocol }
  server "127.0.0.1:5353" {}
  server "127.0.0.1:5354" {}
}
upstream "web" {
  server "127.0.0.1:53" {}
}
upstream "spare" {
  server "127.0.0.1:8053" {}
}
listener "dns" {
  listen   = ["0.0.0.0:53"]
  protocol = "udp"
  upstream = "dns"
}
listener "dns-tcp" {
  listen   = ["127.0.0.1:5300"]
  upstream = "dns"
}
listener "to-tcp" {
  listen   = ["127.0.0.1:8000"]
  upstream = "web"
}
listener "spare" {
  listen   = ["127.0.0.1:8053"]
  protocol = "udp"
  upstream = "dns"
}
