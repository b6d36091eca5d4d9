# Watched by Prometheus and by whatever restarts or routes around weir.
#
#   scrape_configs:                    # in prometheus.yml
#     - job_name: weir
#       static_configs:
#         - targets: ["127.0.0.1:9090"]
#
# /readyz says 503 while weir drains: for the health checks of what stands in
# front of it. /healthz says 200 for as long as the process answers: for what
# restarts it. packaging/grafana/weir.json is a dashboard.

admin {
  metrics = "127.0.0.1:9090" # asks for no password: keep it on loopback, or on a network of your own
}

upstream "db" {
  server "10.0.0.11:5432" {
    name = "a" # the label `peer` of its metrics
  }
  server "10.0.0.12:5432" {
    name = "b"
  }
}

listener "db" {
  listen   = ["0.0.0.0:5432"]
  upstream = "db"
}
