resolver {
  valid = "ttl"
}
upstream "a" {
  server "db.example:5432" { resolve = true }
}

listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
}
