locals {
  methods = ["round_robin", "least_conn", "least_time", "random"]
}

dynamic "upstream" {
  for_each = local.methods
  labels   = [upstream.value]
  content {
    dynamic "balance" {
      for_each = [upstream.value]
      labels   = [balance.value]
      content {}
    }
    server "10.0.0.1:80" {
      name      = "a"
      weight    = 10
      max_fails = 2
    }
    server "10.0.0.2:80" {
      name      = "b"
      weight    = 10
      max_fails = 3
    }
    server "10.0.0.3:80" {
      name      = "c"
      weight    = 2
      max_fails = 3
    }
    server "10.0.0.4:80" {
      name   = "d"
      weight = 10
    }
    server "10.0.0.5:80" {
      name      = "e"
      weight    = 10
      max_fails = 0
    }
  }
}

upstream "alone" {
  server "10.0.0.1:80" {
    weight    = 10
    max_fails = 2
  }
}

dynamic "listener" {
  for_each = concat(local.methods, ["alone"])
  labels   = [listener.value]
  content {
    listen   = ["127.0.0.1:${1000 + listener.key}"]
    upstream = listener.value
  }
}
