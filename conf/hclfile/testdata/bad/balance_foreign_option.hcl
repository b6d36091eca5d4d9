upstream "u0" {
  balance "least_conn" {
    key = remote_addr
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u1" {
  balance "round_robin" {
    time = "connect"
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u2" {
  balance "hash" {
    key     = remote_addr
    epsilon = 0.1
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u3" {
  balance "ip_hash" {
    consistent = true
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u4" {
  balance "maglev" {
    key        = remote_addr
    consistent = true
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u5" {
  balance "hash" {
    key        = remote_addr
    table_size = 7
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u6" {
  balance "single" {
    choices = 2
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u7" {
  balance "first" {
    failback = true
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

listener "u0" {
  listen   = ["127.0.0.1:1000"]
  upstream = "u0"
}
