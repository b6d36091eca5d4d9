upstream "db" {
  server "${env.DB_HOST}:5432" {}
  server "$DB_HOST:5432" {}
}
listener "db" {
  listen   = ["0.0.0.0:${PORT}"]
  upstream = env.UPSTREAM
  congestion = $CONGESTION
  connect_timeout = var.timeout
}
