upstream "a" {
  server "10.0.0.1:3306" {}
  server "10.0.0.2:3306" {}

  health_check "mysql" {
    role     = "replica"
    max_lag  = "10s"
    user     = "weir"
    password = file("password")
    galera   = true
  }
}

listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
}
