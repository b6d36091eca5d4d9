upstream "db" {
<<<<<<< HEAD
  server "10.0.0.1:5432" {}
=======
  server "10.0.0.2:5432" {}
>>>>>>> feature
}
listener "db" {
  listen   = ["0.0.0.0:5432"]
  upstream = "db"
}
