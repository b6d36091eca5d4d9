upstream "a" {
  server "10.0.0.1:6000" {}
  server "10.0.0.2:6000" {}

  on_state {
    unhealthy = "close"
    standby   = "drain"
    lagging   = "keep"
    drained   = "drain"
    removed   = "close"
    pace      = "12.5/s"
  }
}
upstream "b" {
  server "10.0.0.3:6000" {}

  on_state {
    removed = "close"
    pace    = "off"
  }
}

listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
}
listener "b" {
  listen   = ["127.0.0.1:9998"]
  upstream = "b"
}
