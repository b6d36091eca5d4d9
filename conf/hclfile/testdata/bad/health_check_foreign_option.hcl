upstream "a" {
  server "10.0.0.1:6000" {}
  health_check "tcp" {
    path   = "/"
    galera = true
    step {
      send = "PING"
    }
  }
  health_check "udp" {
    tls {}
    user = "weir"
  }
  health_check "redis" {
    database = "0"
    vhost    = "/"
  }
  health_check "http" {
    role  = "primary"
    pasword = "x"
  }
}
listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
}
