upstream "a" {
  server "10.0.0.1:6000" {
    check          = true
    inter          = "2s"
    on-marked-down = "shutdown-sessions"
    rise           = 2
    slowstart      = "10s"
    agent-check    = true
  }
  option  = "httpchk"
  httpchk = "/health"
  observe = "layer4"
  health_checks {}
  healthy_threshold       = 2
  max_ejection_percent    = 50
  healthy_panic_threshold = 30
}
listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
}
