upstream "a" {
  server "10.0.0.1:6000" {}
  health_check "tcp" {
    interval = "0s"
    timeout  = "off"
    rise     = 0
    fall     = 1001
    initial  = "down"
    port     = 65536
  }
  health_check "tcp" {
    interval = 5
    timeout  = 500
    rise     = "2"
    fall     = 1.5
    initial  = true
    port     = "http"
  }
}
listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
}
