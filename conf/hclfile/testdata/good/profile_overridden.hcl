upstream "a" {
  server "10.0.0.1:5432" {}
  server "10.0.0.2:5432" {}

  health_check "postgres" {
    role = "primary"
    user = "weir"
  }
  on_state {
    standby = "keep"
    pace    = "50/s"
  }
}
upstream "names" {
  server "10.0.0.53:53" {}
}
listener "a" {
  profile         = "postgres"
  listen          = ["127.0.0.1:9999"]
  upstream        = "a"
  connect_timeout = "1s"
  idle_timeout    = "1h"
}
listener "plain" {
  listen   = ["127.0.0.1:9998"]
  upstream = "a"
}
listener "names" {
  profile  = "dns"
  protocol = "udp"
  listen   = ["127.0.0.1:9998"]
  upstream = "names"
  udp {
    idle_timeout = "2s"
    responses    = 0
  }
}
