upstream "db" {
  server "10.0.0.1" {}
  server "10.0.0.300:5432" {}
  server "tcp://10.0.0.2:5432" {}
  server "::1:5432" {}
  server "/run/pg.sock" {}
  server "unix:run/pg.sock" {}
  server "db host:5432" {}
  server "10.0.0.4:99999" {}
  server "" {}
  server "*:80" {}
}
listener "db" {
  listen   = ["5432", ":5433", "*:5434", "localhost:5435", "0.0.0.0:6010-6000", "0.0.0.0", "[::]:0", 5436]
  upstream = "db"
}
