listener "db" {
  listen       = ["0.0.0.0:5432"]
  upstream     = "db"
  server "10.0.0.1:5432" {}
  max_sessions = 100
  level        = "debug"
  weight       = 2
}
upstream "db" {
  server "10.0.0.1:5432" {
    idle_timeout = "10m"
    port         = 5432
  }
  listen = ["0.0.0.0:1"]
  max_fails = 3
  health_chek "tcp" {}
}
max_conns = 3
