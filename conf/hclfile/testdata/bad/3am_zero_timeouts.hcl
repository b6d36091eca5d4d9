worker { shutdown_timeout = "0" }
upstream "db" {
  server "10.0.0.1:5432" { fail_timeout = "1500ms" }
  server "10.0.0.2:5432" { fail_timeout = 0 }
  server "10.0.0.3:5432" { fail_timeout = "off" }
  server "10.0.0.4:5432" { fail_timeout = "500ms" }
}
listener "db" {
  listen             = ["0.0.0.0:5432"]
  upstream           = "db"
  connect_timeout    = "off"
  idle_timeout       = 0
  half_close_timeout = "0s"
  dead_peer_timeout  = "never"
  next_upstream { timeout = "10 seconds" }
}
