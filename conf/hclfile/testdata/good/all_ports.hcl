upstream "db" {
  server "10.0.0.1:5432" {}
}
listener "db" {
  listen   = ["127.0.0.1:1-65535"]
  upstream = "db"
}
