upstream "a" {
  balance "maglev" {
    key        = remote_addr
    table_size = 3
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
  server "10.0.0.3:80" {}
  server "10.0.0.4:80" {}
}

listener "a" {
  listen   = ["127.0.0.1:1000"]
  upstream = "a"
}
