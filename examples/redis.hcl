# Redis: many small messages, over TCP and over a unix socket.

log {
  format = "json"
  access = "/var/log/weir/redis.log" # SIGUSR1 opens it anew after a rotation
  fields = ["time", "remote_addr", "upstream_addr", "close_reason", "bytes_received", "bytes_sent", "session_time"]
}

upstream "cache" {
  server "127.0.0.1:6380" {}
  server "127.0.0.1:6381" {}
}

listener "cache" {
  listen   = ["127.0.0.1:6379", "unix:/run/weir/redis.sock"]
  upstream = "cache"

  idle_timeout = "1h"
}
