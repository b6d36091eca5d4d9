upstream "a" {
  balance "roundrobin" {}
  server "10.0.0.1:1" {}
}
upstream "b" {
  balance "leastconn" {}
  server "10.0.0.1:1" {}
}
upstream "c" {
  balance "rond_robin" {}
  balance "round_robin" {}
  server "10.0.0.1:1" {}
}
upstream "d" {
  balance {}
  server "10.0.0.1:1" {}
}
upstream "e" {
  balance "weighted_least_conn" "x" {}
  server "10.0.0.1:1" {}
}
upstream "f" {
  balance "chaos" {}
  server "10.0.0.1:1" {}
}
upstream "g" {
  balance "round_robin" {
    weight = 3
  }
  server "10.0.0.1:1" {}
}
