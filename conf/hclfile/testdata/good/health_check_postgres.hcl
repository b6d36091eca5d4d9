upstream "a" {
  server "10.0.0.1:5432" {}
  server "10.0.0.2:5432" {}
  exactly_one = true

  health_check "postgres" {}
  health_check "postgres" {
    role     = "primary"
    user     = "weir"
    password = file("password")
    database = "orders"
    tls {
      verify = true
    }
  }
}
upstream "readers" {
  server "10.0.0.1:5432" {}
  server "10.0.0.2:5432" {}

  health_check "postgres" {
    role    = "replica"
    max_lag = "5s"
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
