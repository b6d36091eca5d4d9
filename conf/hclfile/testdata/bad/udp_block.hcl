upstream "a" {
  server "10.0.0.1:5000" {}
}
listener "unset" {
  listen   = ["0.0.0.0:1"]
  upstream = "a"
  udp {
    idle_timeout = "1m"
    respones     = 1
  }
}
listener "tcp" {
  listen   = ["0.0.0.0:2"]
  protocol = "tcp"
  upstream = "a"
  udp {}
}
listener "label" {
  listen   = ["0.0.0.0:3"]
  protocol = "udp"
  upstream = "a"
  udp "x" {}
}
listener "attribute" {
  listen   = ["0.0.0.0:4"]
  upstream = "a"
  udp      = true
}
listener "twice" {
  listen   = ["0.0.0.0:5"]
  protocol = "udp"
  upstream = "a"
  udp {}
  udp {}
}
# A mistake in the protocol's name does not make a TCP listener of it.
listener "misspelt" {
  listen   = ["0.0.0.0:6"]
  protcol  = "udp"
  upstream = "a"
  udp {
    responses = 2000000
  }
}
listener "words-of-the-block" {
  listen       = ["0.0.0.0:7"]
  protocol     = "udp"
  upstream     = "a"
  responses    = 1
  max_sessions = 10
}
