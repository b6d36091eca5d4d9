upstream "a" {
  server "10.0.0.1:5432" { resolve = true }
  server "unix:/run/db.sock" { resolve = true }
  server "_pg._tcp.example" {}
  server "_pg._tcp.example:5432" { service = true }
  server "10.0.0.1" { service = true }
  server "10.0.0.1:80" { service = true }
  server "unix:/run/a.sock" { service = true }
  server "a b" { service = true }
  server "_pg._tcp.b.example" {
    resolve = true
    service = true
  }
  server "_pg._tcp.c.example" { service = "on" }
  server "db.example:5432" { resolve = "30s" }
}
listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
}
