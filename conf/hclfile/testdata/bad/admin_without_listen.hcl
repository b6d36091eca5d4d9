admin {
  group      = "weir"
  token_file = "/etc/weir/"
  metrics    = "127.0.0.1:9090-9099"
}
upstream "db" {
  server "10.0.0.1:5432" {}
}
listener "db" {
  listen   = ["0.0.0.0:5432"]
  upstream = "db"
}
