upstream "orders" {
  server "10.0.0.1:5432" {}
}
