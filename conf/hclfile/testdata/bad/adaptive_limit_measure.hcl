upstream "u0" {
  server "10.0.0.1:5000" {}
  queue {}
  adaptive_limit "vegas" {
    measure = "connect"
    apply_to = "turn"
  }
}
listener "u0" {
  listen   = ["0.0.0.0:1"]
  upstream = "u0"
}
upstream "u1" {
  server "10.0.0.1:5001" {}
  queue {}
  adaptive_limit "vegas" {
    measure = "first_byte"
    apply_to = "turn"
  }
}
listener "u1" {
  listen   = ["0.0.0.0:2"]
  upstream = "u1"
}
upstream "u2" {
  server "10.0.0.1:5002" {}
  queue {}
  adaptive_limit "vegas" {
    measure = "latency"
    apply_to = "turns"
  }
}
listener "u2" {
  listen   = ["0.0.0.0:3"]
  upstream = "u2"
}
upstream "u3" {
  server "10.0.0.1:5003" {}
  queue {}
  adaptive_limit "vegas" {
    measure = "turns"
    apply_to = "turn"
  }
}
listener "u3" {
  listen   = ["0.0.0.0:4"]
  upstream = "u3"
}
