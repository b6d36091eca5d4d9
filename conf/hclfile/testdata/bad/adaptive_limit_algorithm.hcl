upstream "u0" {
  server "10.0.0.1:5000" {}
  queue {}
  adaptive_limit "aidm" {
    min = 10
  }
}
listener "u0" {
  listen   = ["0.0.0.0:1"]
  upstream = "u0"
}
upstream "u1" {
  server "10.0.0.1:5001" {}
  queue {}
  adaptive_limit "gradient2" {
    targt = "1s"
  }
}
listener "u1" {
  listen   = ["0.0.0.0:2"]
  upstream = "u1"
}
upstream "u2" {
  server "10.0.0.1:5002" {}
  queue {}
  adaptive_limit "fixed" {
    max = 10
  }
}
listener "u2" {
  listen   = ["0.0.0.0:3"]
  upstream = "u2"
}
upstream "u3" {
  server "10.0.0.1:5003" {}
  queue {}
  adaptive_limit "bbr" {
  }
}
listener "u3" {
  listen   = ["0.0.0.0:4"]
  upstream = "u3"
}
upstream "u4" {
  server "10.0.0.1:5004" {}
  queue {}
  adaptive_limit {
    target = "1s"
  }
}
listener "u4" {
  listen   = ["0.0.0.0:5"]
  upstream = "u4"
}
upstream "u5" {
  server "10.0.0.1:5005" {}
  queue {}
  adaptive_limit "Vegas" {
    target = "1s"
  }
}
listener "u5" {
  listen   = ["0.0.0.0:6"]
  upstream = "u5"
}
