upstream "a" {
  balance "first" {}

  server "10.0.0.1:80" { max_conns = 100 }
  server "10.0.0.2:80" {}
  server "10.0.0.3:80" { backup = true }
}

listener "a" {
  listen   = ["127.0.0.1:1000"]
  upstream = "a"
}
