locals {
  a = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
  b = "${local.a}${local.a}${local.a}${local.a}${local.a}${local.a}${local.a}${local.a}"
  c = "${local.b}${local.b}${local.b}${local.b}${local.b}${local.b}${local.b}${local.b}"
}

upstream "a" {
  balance "hash" {
    key = "${local.c}${remote_addr}-"
  }
  server "10.0.0.1:80" {}
}

upstream "b" {
  balance "maglev" {
    key = "${local.c}-"
  }
  server "10.0.0.1:80" {}
}

listener "a" {
  listen   = ["127.0.0.1:1000"]
  upstream = "a"
}
