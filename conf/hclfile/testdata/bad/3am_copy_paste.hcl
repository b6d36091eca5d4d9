upstream "db" {
  server "10.0.0.1:5432" { name = "a" }
  server "10.0.0.2:5432" { name = "a" }
}
upstream "db" {
  server "10.0.0.3:5432" {}
}
listener "db" {
  listen   = ["0.0.0.0:5432", "0.0.0.0:6000-6010"]
  upstream = "db"
  upstream = "db"
}
listener "db" {
  listen   = ["0.0.0.0:5432", "0.0.0.0:6005-6020"]
  upstream = "db"
}
worker { count = 1 }
worker { count = 2 }
