upstream "a" {
  server "10.0.0.1:5432" {}
  server "unix:/run/postgresql/.s.PGSQL.5432" {}
  health_check "postgres" {
    tls {}
  }
  health_check "tls" {}
  health_check "tcp" {
    port = 8080
  }
  health_check "udp" {}
}
listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
}
