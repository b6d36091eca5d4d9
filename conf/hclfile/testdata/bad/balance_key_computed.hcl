upstream "u0" {
  balance "hash" {
    key = lower(remote_addr)
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u1" {
  balance "hash" {
    key = "${upper(remote_addr)}:${server_port}"
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u2" {
  balance "hash" {
    key = remote_port + 1
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u3" {
  balance "hash" {
    key = "${protocol == "tcp" ? "a" : "b"}"
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u4" {
  balance "hash" {
    key = remote_addr[0]
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u5" {
  balance "hash" {
    key = "%{if listener == "x"}y%{endif}${remote_addr}"
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u6" {
  balance "hash" {
    key = "${lower(remote_adr)}"
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

listener "u0" {
  listen   = ["127.0.0.1:1000"]
  upstream = "u0"
}
