locals {
  limits = { gradient = 300 }
}
upstream "a" {
  server "10.0.0.1:5000" {}
  dynamic "adaptive_limit" {
    for_each = local.limits
    labels   = [adaptive_limit.key]
    content {
      max      = adaptive_limit.value
      apply_to = "session"
    }
  }
}
listener "a" {
  listen   = ["0.0.0.0:1"]
  upstream = "a"
}
