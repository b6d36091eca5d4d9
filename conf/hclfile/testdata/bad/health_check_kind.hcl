upstream "a" {
  server "10.0.0.1:6000" {}
  health_check "tpc" {}
  health_check "pgsql" { role = "primary" }
  health_check "mariadb" {}
  health_check "https" {}
  health_check "external-check" {}
  health_check "smtp" {}
  health_check "icmp" {}
  health_check "grpc" {}
  health_check "quux" { path = "/" }
  health_check "" {}
  health_check {}
}
listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
}
