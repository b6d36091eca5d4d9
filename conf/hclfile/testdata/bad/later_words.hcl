upstream "db" {
  server "10.0.0.1:5432" { zone = "a" }
  queue {
    max = 100
  }
}
listener "db" {
  listen   = ["0.0.0.0:5432"]
  priority = 1
  route {
    upstream = "db"
  }
}
