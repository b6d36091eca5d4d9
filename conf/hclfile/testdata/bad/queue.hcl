upstream "a" {
  server "10.0.0.1:5000" { max_conns = 10 }
  queue {
    max     = 0
    timeout = "off"
  }
}
upstream "b" {
  server "10.0.0.1:5001" { max_conns = 10 }
  queue {
    max     = 1000001
    timeout = 0
    size    = 10
  }
  queue {}
}
upstream "c" {
  server "10.0.0.1:5002" {
    max_conns = 10
    queue {}
  }
  queue = 100
}
upstream "d" {
  server "10.0.0.1:5003" { max_conns = 10 }
  queue {
    max     = "100"
    timeout = "2 seconds"
  }
}
upstream "e" {
  server "10.0.0.1:5004" { max_conns = 10 }
  queue "e" {}
}
listener "e" {
  listen   = ["0.0.0.0:5"]
  upstream = "e"
}
listener "a" {
  listen   = ["0.0.0.0:1"]
  upstream = "a"
}
listener "b" {
  listen   = ["0.0.0.0:2"]
  upstream = "b"
}
listener "c" {
  listen   = ["0.0.0.0:3"]
  upstream = "c"
}
listener "d" {
  listen   = ["0.0.0.0:4"]
  upstream = "d"
}
