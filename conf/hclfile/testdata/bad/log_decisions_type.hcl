log {
  decisions = true
}

upstream "u0" {
  balance "round_robin" {}

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

listener "u0" {
  listen   = ["127.0.0.1:1000"]
  upstream = "u0"
}
