upstream "single" {
  server "10.0.0.1:5000" {}
  queue {}
}
listener "single" {
  listen   = ["0.0.0.0:1"]
  upstream = "single"
  priority = 3
  next_upstream {
    backoff           = "25ms"
    before_first_byte = true
  }
  hedge {}
}
upstream "pair" {
  server "10.0.0.1:5001" {}
  server "10.0.0.2:5001" {}
}
listener "pair" {
  listen   = ["0.0.0.0:2"]
  upstream = "pair"
  priority = 0
  next_upstream {
    tries   = 2
    backoff = "25ms"
  }
  hedge { after = "3s" }
}
# Brokers do not take turns with their clients.
upstream "broker" {
  server "10.0.0.1:5002" { max_conns = 10 }
  queue {}
  adaptive_limit "aimd" { target = "200ms" }
}
listener "broker" {
  listen   = ["0.0.0.0:5"]
  upstream = "broker"
  profile  = "mqtt"
}
upstream "log" {
  server "10.0.0.1:5003" { max_conns = 10 }
  queue {}
  adaptive_limit "gradient" { window = 50 }
}
listener "log" {
  listen   = ["0.0.0.0:6"]
  upstream = "log"
  profile  = "kafka"
}
# Of these nobody knows how many servers there will be, and what they can take.
upstream "file" {
  server_file = "peers.json"
  queue {}
}
upstream "name" {
  server "db.example:5432" { resolve = true }
  circuit_breaker { max_sessions = 10 }
}
listener "file" {
  listen   = ["0.0.0.0:3"]
  upstream = "file"
  hedge {}
}
listener "name" {
  listen   = ["0.0.0.0:4"]
  upstream = "name"
  hedge {}
  next_upstream { backoff = "25ms" }
}
