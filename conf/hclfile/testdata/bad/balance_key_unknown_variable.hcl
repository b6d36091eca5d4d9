locals {
  salt = "s"
}

upstream "u0" {
  balance "hash" {
    key = remote_adr
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u1" {
  balance "hash" {
    key = "${remoteaddr}"
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u2" {
  balance "hash" {
    key = src
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u3" {
  balance "hash" {
    key = salt
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u4" {
  balance "hash" {
    key = cookie_session
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u5" {
  balance "hash" {
    key = customer
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u6" {
  balance "hash" {
    key = "${var.key}"
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u7" {
  balance "hash" {
    key = "${local.slat}-${remote_addr}"
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u8" {
  balance "hash" {
    key = "${env.NOT_THERE}-${remote_addr}"
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

listener "u0" {
  listen   = ["127.0.0.1:1000"]
  upstream = "u0"
}
