upstream "a" {
  server "10.0.0.1:5672" {}
  server "10.0.0.2:5672" {}

  health_check "amqp" {}
  health_check "amqp" {
    user     = "weir"
    password = file("password")
    vhost    = "orders"
  }
}

listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
}
