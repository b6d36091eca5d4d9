upstream "a" {
  server "10.0.0.1:6379" {}
  server "10.0.0.2:6379" {}
}
listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
  profile  = "redis"
}
