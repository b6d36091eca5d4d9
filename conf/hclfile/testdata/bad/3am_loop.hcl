upstream "db" {
  server "127.0.0.1:5432" {}
  server "localhost:6432" {}
  server "unix:/run/weir.sock" {}
  server "10.0.0.1:5433" {}
  server "[::1]:7000" {}
  server "0.0.0.0:5433" {}
}
listener "db" {
  listen   = ["0.0.0.0:5432", "127.0.0.1:6432", "unix:/run/weir.sock", "10.0.0.1:5430-5440", "[::]:7000", "127.0.0.1:5433"]
  upstream = "db"
}
