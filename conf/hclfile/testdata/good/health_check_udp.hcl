upstream "a" {
  server "10.0.0.1:53" {}
  server "10.0.0.2:53" {}

  health_check "udp" {}
  health_check "udp" {
    step {
      send_hex = "7765 0100 0001 0000 0000 0000 00 0002 0001"
    }
    step {
      expect_hex = "7765"
    }
  }
}
listener "a" {
  listen   = ["127.0.0.1:9999"]
  protocol = "udp"
  upstream = "a"
  udp {
    responses = 1
  }
}
