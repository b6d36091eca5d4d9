upstream "a" {
  server "10.0.0.1:6000" {}
  health_check "tls" {
    tls {
      server_name = "db example"
      alpn        = []
      ca_file     = "nothing.pem"
      cert_file   = "check.pem"
      verify      = "no"
    }
  }
  health_check "tls" {
    tls {
      server_name = ""
      alpn        = ["", "h2"]
      ca_file     = "health_check_tls.hcl"
      cert_file   = "check.pem"
      key_file    = "other.key"
    }
    tls {}
  }
  health_check "tls" {
    tls {
      ca_file  = ""
      key_file = "."
      ciphers  = "HIGH"
    }
  }
  health_check "tcp" {
    tls = true
  }
}
listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
}
