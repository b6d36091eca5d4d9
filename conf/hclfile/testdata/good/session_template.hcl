# Texts and values that are known at load lie between variables; texts side by
# side become one part.
locals {
  salt  = "s"
  shard = 7
  empty = ""
}

upstream "a" {
  balance "hash" {
    key = "${local.salt}${local.shard}-${upper("x")}${env.LEVEL}/${remote_addr}${local.empty}${remote_port}!"
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "nested" {
  balance "maglev" {
    key = "${"${(remote_addr)}:${server_port}"}"
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "choice" {
  balance "hash" {
    key = "${local.shard > 5 ? "big" : "small"}%{for n in [1, 2]}${n}%{endfor}${connection}"
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

# Dollars that begin no variable, and braces that are meant as they stand.
upstream "dollars" {
  balance "hash" {
    key = "$5 $${remote_addr} ${remote_addr}"
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

# An iterator hides the variable of its name.
dynamic "upstream" {
  for_each = ["b"]
  labels   = [upstream.value]
  content {
    balance "hash" {
      key = "${upstream.value}-${listener}-${remote_addr}"
    }
    server "10.0.0.1:80" {}
    server "10.0.0.2:80" {}
  }
}

dynamic "listener" {
  for_each = { a = 1000, b = 1001, nested = 1002, choice = 1003, dollars = 1004 }
  labels   = [listener.key]
  content {
    listen   = ["127.0.0.1:${listener.value}"]
    upstream = listener.key
  }
}
