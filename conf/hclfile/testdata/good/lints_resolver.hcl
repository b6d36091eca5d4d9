resolver {
  servers = ["10.0.0.53:53"]
}
upstream "db" {
  server "db.example:5432" {}
}
listener "db" {
  listen   = ["0.0.0.0:5432"]
  upstream = "db"
}
