upstream "db" {
  server "10.0.0.1:5432" {}
}
listener "db" {
  listen   = ["0.0.0.0:5432"]
  upstream = "db"
  next_upstream "x" {
    tries = -1
  }
  next_upstream {
    tries   = 70000
    timeout = 10
    retries = 3
  }
  next_upstream {}
}
