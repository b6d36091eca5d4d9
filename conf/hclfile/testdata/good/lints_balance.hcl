upstream "one" {
  balance "hash" {
    key = "remote_addr"
  }
  server "10.0.0.1:80" { weight = 4 }
}

upstream "name" {
  balance "least_conn" {}
  server "db.example:80" {}
}

upstream "constant" {
  balance "hash" {
    key = "x"
  }
  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
  server "10.0.0.3:80" { backup = true }
}

upstream "quoted" {
  balance "maglev" {
    key = "remote_addr"
  }
  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
  server "10.0.0.2:80" {}
}

upstream "from_file" {
  balance "hash" {
    key = local.key
  }
  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "per_process" {
  balance "hash" {
    key        = "${hostname}-${upstream}"
    consistent = true
  }
  server "10.0.0.1:80" {}
  server "10.0.0.1:80" {}
}

locals {
  key = "$remote_addr"
}

upstream "ip" {
  balance "ip_hash" {}
  server "10.0.0.1:80" { weight = 6000 }
  server "10.0.0.2:80" { weight = 271 }
  server "10.0.0.3:80" {
    name   = "never"
    weight = 3
  }
  server "10.0.0.4:80" { backup = true }
}

upstream "never_explores" {
  balance "epsilon_greedy" {
    epsilon   = 0
    half_life = "20s"
  }
  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "always_explores" {
  balance "epsilon_greedy" {
    epsilon = 1
  }
  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "first" {
  balance "first" {}
  server "10.0.0.1:80" { max_conns = 5 }
  server "10.0.0.2:80" { weight = 2 }
  server "10.0.0.3:80" { max_conns = 5 }
  server "10.0.0.4:80" { name = "d" }
  server "10.0.0.5:80" {}
  server "10.0.0.5:80" { backup = true }
}

upstream "single" {
  balance "single" {}
  server "10.0.0.1:80" { weight = 2 }
  server "10.0.0.2:80" { weight = 3 }
}

dynamic "listener" {
  for_each = ["one", "name", "constant", "quoted", "from_file", "per_process", "ip", "never_explores", "always_explores", "first", "single"]
  labels   = [listener.value]
  content {
    listen   = ["127.0.0.1:${1000 + listener.key}"]
    upstream = listener.value
  }
}
