upstream "db" {
  server "10.0.0.1:5432" {
    weight = 3

}
listener "db" {
  listen   = ["0.0.0.0:5432"]
  upstream = "db"
}
