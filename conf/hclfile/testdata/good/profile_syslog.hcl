upstream "a" {
  server "10.0.0.1:514" {}
  server "10.0.0.2:514" {}
}
listener "a" {
  listen   = ["127.0.0.1:5140"]
  protocol = "udp"
  upstream = "a"
  profile  = "syslog"
}
