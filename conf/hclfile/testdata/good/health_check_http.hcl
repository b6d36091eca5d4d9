upstream "a" {
  server "10.0.0.1:8080" {}
  server "10.0.0.2:8080" {}

  health_check "http" {}
  health_check "http" {
    method = "HEAD"
    path   = "/health?full=1"
    host   = "www.example:8443"
    status = ["200", "300-399"]
    body   = "\"status\": *\"(ok|degraded)\""
    port   = 8443
    tls {}
  }
}

listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
}
