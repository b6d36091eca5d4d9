upstream "db" {
  server "10.0.0.1:5432" { zone = "a" }
}
listener "db" {
  listen   = ["0.0.0.0:5432"]
  max_age  = "1h"
  route {
    upstream = "db"
  }
}
