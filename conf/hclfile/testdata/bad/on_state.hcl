upstream "a" {
  server "10.0.0.1:6000" {}
  on_state {
    unhealthy = "reset"
    standby   = true
    lagging   = "kep"
    drained   = "off"
    removed   = "delete"
    down      = "close"
    pace      = "200"
  }
  on_state {
    pace = 200
  }
}
upstream "b" {
  server "10.0.0.2:6000" {}
  on_state = "close"
}
upstream "c" {
  server "10.0.0.3:6000" {}
  on_state {
    pace = "60/m"
  }
}
upstream "d" {
  server "10.0.0.4:6000" {}
  on_state {
    pace = "0/s"
  }
}
upstream "e" {
  server "10.0.0.5:6000" {}
  on_state {
    pace = "unlimited"
  }
}
upstream "f" {
  server "10.0.0.6:6000" {}
  on_state {
    pace = "10MiB/s"
  }
}
listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
}
