upstream "a" {
  server "10.0.0.1:6000" {
    slow_start = 30
    mandatory  = true
  }
  health_check {
    interval = "10s"
  }
  passes       = 2
  fails        = 3
  port         = 8080
  match        = "x"
  interval     = "5s"
  health_check = "http"
}
listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
  health_check "tcp" {}
  resolver_timeout = "5s"
}
