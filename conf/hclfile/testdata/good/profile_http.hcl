upstream "a" {
  server "10.0.0.1:8080" {}
  server "10.0.0.2:8080" {}
}
listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
  profile  = "http"
}
