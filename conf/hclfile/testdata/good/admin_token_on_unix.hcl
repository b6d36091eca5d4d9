admin {
  listen     = "unix:/run/weir/admin.sock"
  token_file = "/etc/weir/admin.token"
}
upstream "db" {
  server "10.0.0.1:5432" {}
}
listener "db" {
  listen   = ["0.0.0.0:5432"]
  upstream = "db"
}
