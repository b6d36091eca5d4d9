upstream "a" {
  server "10.0.0.1:6000" {}
  server "10.0.0.2:6000" {}

  health_check "tls" {}
  health_check "tls" {
    tls {
      server_name = "db.example"
      alpn        = ["postgresql", "h2"]
      ca_file     = "check.pem"
      cert_file   = "check.pem"
      key_file    = "./check.key"
      verify      = false
    }
  }
  health_check "tcp" {
    tls {
      server_name = "10.0.0.1"
    }
  }
}

listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
}
