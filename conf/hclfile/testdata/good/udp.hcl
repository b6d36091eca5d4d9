worker {
  count = 2
}
upstream "defaults" {
  server "10.0.0.1:5000" {}
}
upstream "dns" {
  balance "hash" { key = "${remote_addr}:${remote_port}" }
  server "10.0.1.1:53" {}
  server "10.0.1.2:53" {}
}
upstream "syslog" {
  server "logs.example:514" {}
}
listener "defaults" {
  listen   = ["0.0.0.0:5000", "[::]:5000"]
  protocol = "udp"
  upstream = "defaults"
}
listener "dns" {
  listen   = ["0.0.0.0:53"]
  protocol = "udp"
  upstream = "dns"

  udp {
    idle_timeout = "5s"
    requests     = 1
    responses    = 1
    max_sessions = 2000
    quarantine   = "0s"
  }
}
# DNS over TCP: the same port and the same servers.
listener "dns-tcp" {
  listen   = ["0.0.0.0:53", "127.0.0.1:5000"]
  protocol = "tcp"
  upstream = "dns"
}
listener "computed" {
  listen   = ["127.0.0.1:5001"]
  protocol = lower("UDP")
  upstream = "dns"

  dynamic "udp" {
    for_each = [1]
    content { responses = udp.value }
  }
}
listener "syslog" {
  listen   = ["127.0.0.1:514"]
  protocol = "udp"
  upstream = "syslog"

  idle_timeout = null
  udp {
    responses    = "none"
    max_sessions = "auto"
    quarantine   = "1500ms"
  }
}
