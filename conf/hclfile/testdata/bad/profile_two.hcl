upstream "a" {
  server "10.0.0.1:6000" {}
}
listener "one" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
  profile  = "postgres"
}
listener "plain" {
  listen   = ["127.0.0.1:9998"]
  upstream = "a"
}
listener "two" {
  listen   = ["127.0.0.1:9997"]
  upstream = "a"
  profile  = "redis"
}
upstream "b" {
  server "10.0.0.2:6000" {}
}
listener "three" {
  listen   = ["127.0.0.1:9996"]
  upstream = "b"
  profile  = "generic"
}
listener "four" {
  listen   = ["127.0.0.1:9995"]
  upstream = "b"
  profile  = "http"
}
