admin {
  listen     = "unix:run/admin.sock"
  group      = "our admins"
  token_file = "admin.token"
  metrics    = "unix:/run/weir/metrics.sock"
}
upstream "db" {
  server "10.0.0.1:5432" {}
}
listener "db" {
  listen   = ["0.0.0.0:5432"]
  upstream = "db"
}
