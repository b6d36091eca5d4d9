upstream "a" {
  balance "single" {}
  server "10.0.0.1:6379" {}
  server "10.0.0.2:6379" {}
  exactly_one = true

  health_check "redis" { role = "primary" }
}

listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
}
