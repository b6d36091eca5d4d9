upstream "a" {
  server "10.0.0.1:6000" {}
  outlier_detection {
    consecutive_failures = -1
    min_success_rate     = 80
    interval             = "off"
    base_ejection_time   = 30
    max_ejection         = "150%"
  }
}
upstream "b" {
  server "10.0.0.1:6000" {}
  outlier_detection {
    consecutive_failures = 0
    min_success_rate     = 0
  }
}
upstream "c" {
  server "10.0.0.1:6000" {}
  outlier_detection {
    min_success_rate = "80%"
    max_ejection     = 50
    consecutive_5xx  = 5
  }
}
upstream "d" {
  server "10.0.0.1:6000" {}
  outlier_detection {
    max_ejection = "half"
  }
}
listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
}
