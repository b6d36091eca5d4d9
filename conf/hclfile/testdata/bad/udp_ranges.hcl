upstream "a" {
  server "10.0.0.1:5000" {}
}
listener "high" {
  listen   = ["0.0.0.0:1"]
  protocol = "udp"
  upstream = "a"
  udp {
    idle_timeout = "366d"
    requests     = 1000001
    responses    = 1000001
    max_sessions = 100000001
    quarantine   = "400d"
  }
}
listener "low" {
  listen   = ["0.0.0.0:2"]
  protocol = "udp"
  upstream = "a"
  udp {
    idle_timeout = "0s"
    requests     = -1
    responses    = -1
    max_sessions = 0
    quarantine   = 0
  }
}
listener "words" {
  listen   = ["0.0.0.0:3"]
  protocol = "udp"
  upstream = "a"
  udp {
    idle_timeout = "off"
    requests     = "none"
    responses    = "any"
    max_sessions = "unlimited"
    quarantine   = "off"
  }
}
listener "types" {
  listen   = ["0.0.0.0:4"]
  protocol = "udp"
  upstream = "a"
  udp {
    idle_timeout = 60
    requests     = "5"
    responses    = "no"
    max_sessions = true
    quarantine   = 1
  }
}
listener "fractions" {
  listen   = ["0.0.0.0:5"]
  protocol = "udp"
  upstream = "a"
  udp {
    idle_timeout = "Never"
    requests     = 1.5
    responses    = 0.5
    max_sessions = 2.5
    quarantine   = "0.5ms"
  }
}
