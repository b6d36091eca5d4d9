upstream "a" {
  server "10.0.0.1:5432" {}
  health_check "postgres" {
    role     = "primary"
    password = "x"
    database = "orders"
  }
  health_check "postgres" {
    role    = "replica"
    max_lag = "5s"
  }
  health_check "mysql" {}
  health_check "mysql" {
    role = "primary"
    user = ""
  }
  health_check "amqp" {
    user = "weir"
  }
  health_check "mqtt" {
    password = "x"
  }
  health_check "nats" {
    password = "x"
  }
  health_check "kafka" {
    password = "x"
  }
}
listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
}
