# What seems to be missing is on a line that could not be read.
upstream "a" {
  server "_pg._tcp.example" {
    service: true
  }
  health_check "postgres" {
    role = "replica"
    user: weir
    max_lag = "5s"
  }
  health_check "mysql" {
    user: weir
  }
  health_check "amqp" {
    user = "weir"
    password: secret
  }
  health_check "udp" {
    step {
      send: "x"
    }
    step {
      expect = "y"
    }
  }
  health_check "tls" {
    tls {
      cert_file = "check.pem"
      key_file: "check.key"
    }
  }
}
listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
}
