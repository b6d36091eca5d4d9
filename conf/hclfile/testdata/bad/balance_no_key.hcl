upstream "u0" {
  balance "hash" {}

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u1" {
  balance "maglev" {
    table_size = 7
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u2" {
  balance "hash" {
    key = null
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

listener "u0" {
  listen   = ["127.0.0.1:1000"]
  upstream = "u0"
}
