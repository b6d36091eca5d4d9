upstream "db" {
  server "10.0.0.1:5432" {}
}
listener "a" {
  listen   = [for i in [1, 2, 3, 4, 5, 6] : "127.0.0.${i}:1-65535"]
  upstream = "db"
}
