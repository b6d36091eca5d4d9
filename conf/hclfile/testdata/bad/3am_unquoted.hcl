log {
  level = debug
  access = /var/log/weir.log
}
upstream "db" {
  server "10.0.0.1:5432" {
    fail_timeout = 10s
    backup = no
    weight = 3
  }
}
listener "db" {
  listen       = [0.0.0.0:5432, 0.0.0.0:5433]
  upstream     = db
  idle_timeout = 10m
  connect_timeout = 3
  half_close_timeout = off
}
