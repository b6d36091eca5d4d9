upstream "both" {
  server "10.0.0.1:53" {}
  server "10.0.0.2:53" {}
}
upstream "tcp" {
  server "10.0.0.3:53" {}
}
listener "udp" {
  listen   = ["127.0.0.1:5353"]
  protocol = "udp"
  upstream = "both"
  profile  = "dns"
}
listener "tcp" {
  listen   = ["127.0.0.1:5353"]
  upstream = "both"
  profile  = "dns"
}
listener "tcp-only" {
  listen   = ["127.0.0.1:5354"]
  upstream = "tcp"
  profile  = "dns"
}
