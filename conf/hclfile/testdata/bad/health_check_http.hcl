upstream "a" {
  server "10.0.0.1:8080" {}
  health_check "http" {
    method = "get"
    path   = "health"
    host   = "http://www.example/"
    status = ["2xx", "200-399", "399-200", "ok", "600"]
    body   = "(ok"
  }
  health_check "http" {
    method = "GET /"
    path   = "http://www.example/health"
    host   = ""
    status = []
    body   = ""
  }
  health_check "http" {
    method = ""
    path   = "/a b"
    status = [200]
    body   = "(?!no)"
  }
  health_check "http" {
    status = 200
    body   = "\\p{nope}"
  }
}
listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
}
