upstream "a" {
  server "10.0.0.1:9092" {}
}
upstream "b" {
  server "10.0.0.2:9092" {}
}
listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
  profile  = "kafka"
}
listener "b" {
  listen   = ["127.0.0.1:9998"]
  upstream = "b"
  profile  = "kafka"
}
