upstream "a" {
  server "10.0.0.1:5000" { maxqueue = 10 }
  circuit_breakers {
    thresholds {}
  }
  circuit_breaker {
    max_connections      = 10
    max_pending_requests = 10
    max_requests         = 10
    max_retries          = 10
    retry_budget         = 10
    consecutive_errors   = 10
  }
  adaptive_concurrency {}
  timeout_queue = "5s"
  maxqueue      = 10
}
listener "a" {
  listen   = ["0.0.0.0:1"]
  upstream = "a"
  limit_conn           = 10
  proxy_download_rate  = "100k"
  proxy_upload_rate    = "10MiB/s"
  rate_limit           = "500"
  max_connect_attempts = 3
  retry_on             = "connect-failure"
  retry_back_off {}
  hedge_policy {}
  connection_limit = 10
  redispatch       = true
}
