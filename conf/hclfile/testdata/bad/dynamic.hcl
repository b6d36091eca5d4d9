locals {
  list = ["10.0.0.1:1", "10.0.0.2:x", "10.0.0.3:y"]
}
upstream "a" {
  dynamic "server" {
    for_each = local.list
    labels   = [server.value]
    weight   = 3
    content {}
  }
}
upstream "b" {
  dynamic "server" {
    for_each = local.list
    labels   = [server.value]
    content {
      weihgt = 3
      down   = "maybe"
    }
  }
}
upstream "c" {
  dynamic "sever" {
    for_each = local.list
    content {}
  }
  dynamic "server" {
    for_each = local.lsit
    labels   = [server.value]
    content {}
  }
  dynamic "server" {
    for_each = 5
    labels   = [server.value]
    content {}
  }
  dynamic "server" {
    for_each = ["10.0.0.1:1"]
    labels   = [sever.value]
    content {}
  }
  dynamic "server" {
    labels = server.value
  }
  dynamic "congestion" {
    for_each = ["cubic"]
    content {}
  }
  dynamic {
  }
}
