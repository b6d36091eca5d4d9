admin {
  listen     = "unix:/run/weir/db.sock"
  metrics    = "[::]:5432"
}
upstream "db" {
  server "10.0.0.1:5432" {}
}
listener "db" {
  listen   = ["[::]:5432", "unix:/run/weir/db.sock"]
  upstream = "db"
}
