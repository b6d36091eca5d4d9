upstream "db" {
  server "10.0.0.1:5432" {}
}
listener "a" {
  listen   = ["0.0.0.0:5432", "[::]:5432", "[0:0::0]:5432", "unix:/run/a.sock"]
  upstream = "db"
}
listener "b" {
  listen   = ["0.0.0.0:5000-6000", "unix:/run/a.sock"]
  upstream = "db"
}
