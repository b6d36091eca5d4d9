upstream "a" {
  server "10.0.0.1:25" {}
  server "10.0.0.2:25" {}

  # SMTP, and what texts may hold.
  health_check "send_expect" {
    step {
      match = "^220[ -]"
    }
    step {
      send = "QUIT\r\n"
    }
    step {
      expect = "221"
    }
    step {
      send = "a \"text\" with $${signs}, %%{signs}, $$ \\ and\ttabs, Grüße\n"
    }
    step {
      send_hex = "0d0A 00 ff"
    }
    step {
      expect_hex = "4f 4b"
    }
  }
}
listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
}
