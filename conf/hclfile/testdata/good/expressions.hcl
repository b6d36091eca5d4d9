# Values may come from locals, the environment and files.
locals {
  port    = 5432
  servers = split(",", env.SERVERS)
  names   = { a = "10.1.0.1", b = "10.1.0.2" }
  timeout = "${2 * local.seconds}s" # refers to a local that follows
}
locals {
  seconds = 15
  peers   = jsondecode(file("peers.json"))
  ports   = [for i, p in local.peers : 7000 + 10 * i]
}

log {
  level  = env.LEVEL
  access = null # as if it were not there
}

upstream "list" {
  dynamic "server" {
    for_each = local.servers
    labels   = [server.value]
    content {
      weight = tonumber(env.WEIGHT)
      backup = server.key > 0
    }
  }
}

upstream "map" {
  dynamic "server" {
    for_each = local.names
    iterator = each
    labels   = ["${each.value}:${local.port}"]
    content {
      name = each.key
      down = each.key == "b" ? true : false
    }
  }
  dynamic "server" {
    for_each = local.peers
    labels   = [server.value.address]
    content {
      weight = server.value.weight
    }
  }
}

dynamic "listener" {
  for_each = { list = 6000, map = 6005 }
  labels   = [listener.key]
  content {
    listen       = concat(["127.0.0.1:${listener.value}"], [for p in local.ports : "127.0.0.1:${p + listener.value}"])
    upstream     = listener.key
    idle_timeout = local.timeout
    congestion   = trimspace(file("congestion.txt"))
    dynamic "next_upstream" {
      for_each = listener.key == "map" ? [2] : []
      content { tries = next_upstream.value }
    }
  }
}
