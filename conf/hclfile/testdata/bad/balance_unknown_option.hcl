upstream "u0" {
  balance "hash" {
    kye = remote_addr
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u1" {
  balance "random" {
    choice = 2
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u2" {
  balance "least_time" {
    metric = "connect"
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u3" {
  balance "single" {
    weight = 2
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

listener "u0" {
  listen   = ["127.0.0.1:1000"]
  upstream = "u0"
}
