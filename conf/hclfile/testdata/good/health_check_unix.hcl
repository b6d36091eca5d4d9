upstream "a" {
  server "unix:/run/postgresql/.s.PGSQL.5432" {}
  server "10.0.0.2:5432" {}

  health_check "postgres" {}
}

listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
}
