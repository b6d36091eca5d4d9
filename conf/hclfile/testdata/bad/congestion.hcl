upstream "db" {
  server "10.0.0.1:5432" {}
  congestion = "CUBIC"
}
listener "db" {
  listen     = ["0.0.0.0:5432"]
  upstream   = "db"
  congestion = "a name that is too long"
  protocol   = "upd"
}
