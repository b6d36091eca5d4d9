worker {
  max_sessions = 100000
}
upstream "single" {
  server "10.0.0.1:5432" { max_fails = 3 }
}
upstream "weights" {
  server "10.0.1.1:5432" {
    weight    = 2
    max_fails = 5
  }
  server "10.0.1.2:5432" {
    weight    = 10
    max_fails = 2
  }
  server "10.0.1.2:5432" {}
}
upstream "unused" {
  server "10.0.2.1:5432" { down = true }
}
listener "a" {
  listen   = ["0.0.0.0:5432", "127.0.0.1:6000-6010"]
  upstream = "single"
}
listener "b" {
  listen   = ["127.0.0.1:5432", "[::]:5432", "[::1]:5432", "0.0.0.0:6005"]
  upstream = "weights"
}
