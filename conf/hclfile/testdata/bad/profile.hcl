upstream "a" {
  server "10.0.0.1:6000" {}
}
upstream "b" {
  server "10.0.0.1:53" {}
}
listener "unknown" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
  profile  = "postgresql"
}
listener "udp" {
  listen   = ["127.0.0.1:9999"]
  protocol = "udp"
  upstream = "b"
  profile  = "postgres"
}
listener "syslog" {
  listen   = ["127.0.0.1:9998"]
  upstream = "a"
  profile  = "syslog"
}
listener "none" {
  listen   = ["127.0.0.1:9997"]
  upstream = "a"
  profile  = ""
}
