upstream "u0" {
  server "10.0.0.1:5000" {}
  queue {}
  adaptive_limit "aimd" {
    max = 100
  }
}
listener "u0" {
  listen   = ["0.0.0.0:1"]
  upstream = "u0"
}
upstream "u1" {
  server "10.0.0.1:5001" {}
  queue {}
  adaptive_limit "aimd" {
    target = null
  }
}
listener "u1" {
  listen   = ["0.0.0.0:2"]
  upstream = "u1"
}
