upstream "a" {
  server "10.0.0.1:5432" {}
  health_check "postgres" {
    role    = "master"
    max_lag = "5s"
    user    = "weir"
  }
  health_check "postgres" {
    role    = "primary"
    max_lag = "5s"
    user    = "weir"
  }
  health_check "redis" {
    max_lag = "5s"
  }
  health_check "mysql" {
    role    = "slave"
    max_lag = 0
    user    = "weir"
  }
}
listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
}
