admin {
  listen     = "127.0.0.1:5432"
  token_file = "/etc/weir/admin.token"
  metrics    = "0.0.0.0:6432"
}
upstream "db" {
  server "10.0.0.1:5432" {}
}
listener "db" {
  listen   = ["0.0.0.0:5432", "127.0.0.2:6432", "[::1]:6432"]
  upstream = "db"
}
