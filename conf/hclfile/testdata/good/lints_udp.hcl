worker {
  max_sessions = 40000
}
upstream "dns" {
  congestion = "bbr"
  server "10.0.0.1:53" {}
}
upstream "timed" {
  balance "least_time" {}
  server "10.0.1.1:514" {}
  server "10.0.1.2:514" {}
}
upstream "learnt" {
  balance "epsilon_greedy" {}
  server "10.0.2.1:514" {}
  server "10.0.2.2:514" {}
}
upstream "connect" {
  balance "random" {
    choices = 2
    by      = "least_time"
    time    = "connect"
  }
  server "10.0.3.1:514" {}
  server "10.0.3.2:514" {}
}
upstream "both" {
  balance "least_time" { time = "connect" }
  congestion = "bbr"
  server "10.0.4.1:514" {}
  server "10.0.4.2:514" {}
}
upstream "constant" {
  balance "hash" { key = protocol }
  server "10.0.5.1:514" {}
  server "10.0.5.2:514" {}
}
listener "dns" {
  listen   = ["0.0.0.0:53", "127.0.0.1:53"]
  protocol = "udp"
  upstream = "dns"
}
listener "dns-slow" {
  listen   = ["127.0.0.1:54"]
  protocol = "udp"
  upstream = "dns"
  udp {
    idle_timeout = "90s"
    max_sessions = 50000
  }
}
listener "dns-meant" {
  listen   = ["127.0.0.1:55"]
  protocol = "udp"
  upstream = "dns"
  udp { responses = 0 }
}
listener "timed" {
  listen   = ["127.0.0.1:1001"]
  protocol = "udp"
  upstream = "timed"
  udp { responses = "none" }
}
listener "learnt" {
  listen   = ["127.0.0.1:1002"]
  protocol = "udp"
  upstream = "learnt"
  udp { responses = "none" }
}
listener "connect" {
  listen   = ["127.0.0.1:1003"]
  protocol = "udp"
  upstream = "connect"
}
listener "both" {
  listen   = ["127.0.0.1:1004"]
  protocol = "udp"
  upstream = "both"
  udp { responses = "none" }
}
listener "both-tcp" {
  listen   = ["127.0.0.1:1004"]
  upstream = "both"
}
listener "constant" {
  listen   = ["127.0.0.1:1005"]
  protocol = "udp"
  upstream = "constant"
}
