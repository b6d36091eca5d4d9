upstream "db" {
  server "10.0.0.1:5432" {
    weight    = 0
    max_fails = -1
    max_conns = 1.5
    name      = ""
    backup    = 1
    down      = null
  }
  server "10.0.0.2:5432" {
    weight       = 65536
    name         = "a b"
    max_fails    = 99999999999
    fail_timeout = "400d"
  }
}
