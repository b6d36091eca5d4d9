upstream "u0" {
  balance "maglev" {
    key        = remote_addr
    table_size = 65536
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u1" {
  balance "maglev" {
    key        = remote_addr
    table_size = 0
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u2" {
  balance "maglev" {
    key        = remote_addr
    table_size = 1
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u3" {
  balance "maglev" {
    key        = remote_addr
    table_size = 5000012
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u4" {
  balance "maglev" {
    key        = remote_addr
    table_size = 5000010
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u5" {
  balance "maglev" {
    key        = remote_addr
    table_size = "small"
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u6" {
  balance "maglev" {
    key        = remote_addr
    table_size = 7.5
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

listener "u0" {
  listen   = ["127.0.0.1:1000"]
  upstream = "u0"
}
