upstream "u0" {
  balance "epsilon_greedy" {
    epsilon = "10%"
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u1" {
  balance "epsilon_greedy" {
    epsilon = 10
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u2" {
  balance "epsilon_greedy" {
    epsilon = -0.1
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u3" {
  balance "epsilon_greedy" {
    epsilon = 500
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u4" {
  balance "epsilon_greedy" {
    epsilon = "0.1"
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u5" {
  balance "epsilon_greedy" {
    epsilon = "little"
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u6" {
  balance "epsilon_greedy" {
    epsilon = true
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u7" {
  balance "epsilon_greedy" {
    epsilon = 10%
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

listener "u0" {
  listen   = ["127.0.0.1:1000"]
  upstream = "u0"
}
