locals {
  method = "hash"
  salt   = "x"
}

upstream "a" {
  dynamic "balance" {
    for_each = [local.method]
    labels   = [balance.value]
    content {
      key = "${local.salt}${balance.key}-${remote_addr}"
    }
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

listener "a" {
  listen   = ["127.0.0.1:1000"]
  upstream = "a"
}
