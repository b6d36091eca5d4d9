upstream "u0" {
  server "10.0.0.1:5000" {}
  adaptive_limit "vegas" {
  }
}
listener "u0" {
  listen   = ["0.0.0.0:1"]
  upstream = "u0"
}
upstream "u1" {
  server "10.0.0.1:5001" {}
  adaptive_limit "vegas" {
    apply_to = "turn"
  }
}
listener "u1" {
  listen   = ["0.0.0.0:2"]
  upstream = "u1"
}
upstream "u2" {
  server "10.0.0.1:5002" {}
  adaptive_limit "vegas" {
    measure = "turn"
  }
}
listener "u2" {
  listen   = ["0.0.0.0:3"]
  upstream = "u2"
}
upstream "u3" {
  server "10.0.0.1:5003" {}
  adaptive_limit "vegas" {
    apply_to = "session"
  }
}
listener "u3" {
  listen   = ["0.0.0.0:4"]
  upstream = "u3"
}
upstream "u4" {
  server "10.0.0.1:5004" {}
  adaptive_limit "vegas" {
    measure = "connect"
  }
}
listener "u4" {
  listen   = ["0.0.0.0:5"]
  upstream = "u4"
}
