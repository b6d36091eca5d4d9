upstream "db" {
  server "10.0.0.1:5432" { weight = 3, max_fails = 2 }
  congestion = "cubic",
}
listener "db" {
  listen   = ["0.0.0.0:5432" "[::]:5432"]
  upstream = "db"
}
