upstream "a" {
  server "10.0.0.1:5672" {}
  server "10.0.0.2:5672" {}
}
listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
  profile  = "amqp"
}
