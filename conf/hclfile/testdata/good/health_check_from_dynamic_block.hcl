locals {
  checks = { tcp = 8080, http = 8081 }
}
upstream "a" {
  server "10.0.0.1:6000" {}
  server "10.0.0.2:6000" {}

  dynamic "health_check" {
    for_each = local.checks
    labels   = [health_check.key]
    content {
      port = health_check.value
    }
  }
}

listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
}
