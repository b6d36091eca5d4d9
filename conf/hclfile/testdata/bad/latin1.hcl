upstream "db" {
  server "10.0.0.1:5432" { name = "café" }
}
