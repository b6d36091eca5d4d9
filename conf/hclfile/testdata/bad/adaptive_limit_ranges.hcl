upstream "u0" {
  server "10.0.0.1:5000" {}
  queue {}
  adaptive_limit "vegas" {
    min = 100
    max = 50
  }
}
listener "u0" {
  listen   = ["0.0.0.0:1"]
  upstream = "u0"
}
upstream "u1" {
  server "10.0.0.1:5001" {}
  queue {}
  adaptive_limit "vegas" {
    min = 2000
  }
}
listener "u1" {
  listen   = ["0.0.0.0:2"]
  upstream = "u1"
}
upstream "u2" {
  server "10.0.0.1:5002" {}
  queue {}
  adaptive_limit "vegas" {
    min = 10
    initial = 5
  }
}
listener "u2" {
  listen   = ["0.0.0.0:3"]
  upstream = "u2"
}
upstream "u3" {
  server "10.0.0.1:5003" {}
  queue {}
  adaptive_limit "vegas" {
    max = 100
    initial = 200
  }
}
listener "u3" {
  listen   = ["0.0.0.0:4"]
  upstream = "u3"
}
upstream "u4" {
  server "10.0.0.1:5004" {}
  queue {}
  adaptive_limit "vegas" {
    initial = 1001
    window = 9
  }
}
listener "u4" {
  listen   = ["0.0.0.0:5"]
  upstream = "u4"
}
upstream "u5" {
  server "10.0.0.1:5005" {}
  queue {}
  adaptive_limit "vegas" {
    min = 0
    max = 1000001
    initial = "auto"
    window = 100001
  }
}
listener "u5" {
  listen   = ["0.0.0.0:6"]
  upstream = "u5"
}
upstream "u6" {
  server "10.0.0.1:5006" {}
  queue {}
  adaptive_limit "aimd" {
    target = "off"
    percentile = 0
    backoff = 1
  }
}
listener "u6" {
  listen   = ["0.0.0.0:7"]
  upstream = "u6"
}
upstream "u7" {
  server "10.0.0.1:5007" {}
  queue {}
  adaptive_limit "aimd" {
    target = 0.2
    percentile = 1
    backoff = 0.49
  }
}
listener "u7" {
  listen   = ["0.0.0.0:8"]
  upstream = "u7"
}
upstream "u8" {
  server "10.0.0.1:5008" {}
  queue {}
  adaptive_limit "aimd" {
    target = "200ms"
    percentile = 95
    backoff = "25ms"
  }
}
listener "u8" {
  listen   = ["0.0.0.0:9"]
  upstream = "u8"
}
upstream "u9" {
  server "10.0.0.1:5009" {}
  queue {}
  adaptive_limit "aimd" {
    target = "200 ms"
    percentile = "95%"
    backoff = "90%"
  }
}
listener "u9" {
  listen   = ["0.0.0.0:10"]
  upstream = "u9"
}
