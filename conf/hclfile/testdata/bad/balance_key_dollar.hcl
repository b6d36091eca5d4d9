upstream "u0" {
  balance "hash" {
    key = "$remote_addr"
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u1" {
  balance "hash" {
    key = "x-$remote_addr:$server_port-$5"
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u2" {
  balance "maglev" {
    key = "$remote_addr-${server_port}"
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

listener "u0" {
  listen   = ["127.0.0.1:1000"]
  upstream = "u0"
}
