resolver {
  servers = ["127.0.0.1:53", "[::1]:5353"]
  timeout = "2s"
  valid   = "30s"
}
upstream "a" {
  server "db.example:5432" { resolve = true }
  server "_pg._tcp.example" {
    service = true
    weight  = 2
  }
  server "db.service.consul" {
    service = true
    resolve = false
    name    = "consul"
  }
  server "static.example:5432" {}
}

listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
}
