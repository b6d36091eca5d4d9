upstream "a" {
  balance "epsilon_greedy" {
    epsilon   = 0.05
    half_life = "1m"
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

listener "a" {
  listen   = ["127.0.0.1:1000"]
  upstream = "a"
}
