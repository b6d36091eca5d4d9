upstream "a" {
  balance "single" {}
  server "10.0.0.1:6000" { slow_start = "30s" }
  server "10.0.0.2:6000" {}
}
upstream "b" {
  server "10.0.0.1:6000" { slow_start = 30 }
  server "10.0.0.2:6000" { slow_start = "0s" }
}
listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
}
