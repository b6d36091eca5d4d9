upstream "u0" {
  balance "random" {
    choices = 2
    by      = "round_robin"
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u1" {
  balance "random" {
    choices = 2
    by      = "least_time=first_byte"
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

listener "u0" {
  listen   = ["127.0.0.1:1000"]
  upstream = "u0"
}
