upstream "db" {
  server "10.0.0.1:5432" {}
}
listener "db" {
  listen            = ["0.0.0.0:5432"]
  upstream          = "db"
  dead_peer_timeout = "30d"
}
