upstream "a" {
  server "10.0.0.1:5000" {}
}
listener "absent" {
  listen   = ["0.0.0.0:1"]
  upstream = "a"
  limits {
    ipv4_prefix = 24
    ipv6_prefix = 64
  }
}
listener "zero" {
  listen   = ["0.0.0.0:2"]
  upstream = "a"
  limits {
    sessions            = 100
    sessions_per_client = 0
    ipv6_prefix         = 64
  }
}
# What is wrong may be the number.
listener "wrong" {
  listen   = ["0.0.0.0:3"]
  upstream = "a"
  limits {
    sessions_per_client = "10"
    ipv6_prefix         = 64
  }
}
