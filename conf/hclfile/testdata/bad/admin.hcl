admin {
  listen     = "0.0.0.0:9091"
  group      = "weir"
  metrics    = "9090"
  socket     = "x"
}
upstream "db" {
  server "10.0.0.1:5432" {}
}
listener "db" {
  listen   = ["0.0.0.0:5432"]
  upstream = "db"
}
