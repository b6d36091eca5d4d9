upstream "brokers" {
  server "10.0.0.1:9092" {}
  server "10.0.0.2:9092" {}
}
upstream "rabbits" {
  server "10.0.0.1:5672" {}
  server "10.0.0.2:5672" {}
}
upstream "logs" {
  balance "least_time" {}
  server "10.0.0.1:514" {}
  server "10.0.0.2:514" {}
}
listener "brokers" {
  listen       = ["127.0.0.1:9999"]
  upstream     = "brokers"
  profile      = "kafka"
  idle_timeout = "5m"
}
listener "rabbits" {
  listen       = ["127.0.0.1:9998"]
  upstream     = "rabbits"
  profile      = "amqp"
  idle_timeout = "1m"
}
listener "logs" {
  listen   = ["127.0.0.1:9997"]
  protocol = "udp"
  upstream = "logs"
  profile  = "syslog"
}
