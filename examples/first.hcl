upstream "db" {
  server "127.0.0.1:5433" {}
  server "127.0.0.1:5434" {}
}

listener "db" {
  listen   = ["127.0.0.1:5432"]
  upstream = "db"
}
