admin {
  listen  = "127.0.0.1:9090"
  metrics = "0.0.0.0:9090"
}
upstream "db" {
  server "10.0.0.1:5432" {}
}
listener "db" {
  listen   = ["0.0.0.0:5432"]
  upstream = "db"
}
