locals {
  list = [1]
}

upstream "u0" {
  balance "hash" {
    key = 5
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u1" {
  balance "hash" {
    key = ["remote_addr"]
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u2" {
  balance "hash" {
    key = true
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u3" {
  balance "hash" {
    key = "${local.list}-${remote_addr}"
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u4" {
  balance "hash" {
    key = "${null}-${remote_addr}"
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u5" {
  balance "hash" {
    key = [remote_addr]
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

listener "u0" {
  listen   = ["127.0.0.1:1000"]
  upstream = "u0"
}
