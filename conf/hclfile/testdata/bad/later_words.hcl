resolver {
  timeout = "5s"
}
upstream "db" {
  server "10.0.0.1:5432" { slow_start = "30s" }
  health_check "postgres" {
    interval = "1s"
  }
}
listener "db" {
  listen   = ["0.0.0.0:5432"]
  profile  = "dns"
  route {
    upstream = "db"
  }
}
