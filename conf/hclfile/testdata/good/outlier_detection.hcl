upstream "a" {
  server "10.0.0.1:6000" {}
  server "10.0.0.2:6000" {}

  outlier_detection {}
  panic_threshold = "33.3%"
}
upstream "b" {
  server "10.0.0.3:6000" {}
  server "10.0.0.4:6000" {}

  outlier_detection {
    consecutive_failures = 0
    min_success_rate     = 0.95
    interval             = "1m"
    base_ejection_time   = "90s"
    max_ejection         = 0.25
  }
  panic_threshold = 0.07
}
upstream "c" {
  server "10.0.0.5:6000" {}
  server "10.0.0.6:6000" {}

  outlier_detection {
    min_success_rate = 0
    max_ejection     = "0%"
  }
  panic_threshold = "off"
}

listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
}
listener "b" {
  listen   = ["127.0.0.1:9998"]
  upstream = "b"
}
listener "c" {
  listen   = ["127.0.0.1:9997"]
  upstream = "c"
}
