upstream "u0" {
  balance "hash" {
    key = proxy_protocol_addr
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u1" {
  balance "hash" {
    key = "${ssl_preread_server_name}:${remote_addr}"
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u2" {
  balance "maglev" {
    key = sni
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

listener "u0" {
  listen   = ["127.0.0.1:1000"]
  upstream = "u0"
}
