upstream "db" {
  server "10.0.0.11:5432" {}
}
listener "db" {
  listen   = ["0.0.0.0:5432"]
  upstream = "db"
}
