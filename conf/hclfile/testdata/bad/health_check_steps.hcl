upstream "a" {
  server "10.0.0.1:6000" {}
  health_check "send_expect" {}
  health_check "send_expect" {
    step {}
    step {
      send   = "PING\r\n"
      expect = "PONG"
    }
    step {
      send = ""
    }
    step {
      send_hex = "0x0d 0x0a"
    }
    step {
      expect_hex = "0d0"
    }
    step {
      expect_hex = "xyz"
    }
    step {
      match = "+OK"
    }
    step "first" {
      send = "PING"
    }
    step {
      recv = "PONG"
    }
  }
  health_check "udp" {
    step {
      expect = "PONG"
    }
    step {
      send = "PING"
    }
  }
}
listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
}
