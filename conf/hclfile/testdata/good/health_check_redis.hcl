upstream "a" {
  server "10.0.0.1:6379" {}
  server "10.0.0.2:6379" {}

  health_check "redis" {
    role     = "primary"
    password = file("password")
  }
}
upstream "readers" {
  server "10.0.0.1:6379" {}
  server "10.0.0.2:6379" {}

  health_check "redis" {
    role    = "replica"
    max_lag = "30s"
    user    = "weir"
  }
}

listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
}
listener "readers" {
  listen   = ["127.0.0.1:9998"]
  upstream = "readers"
}
