# A heavy and a light server. What happens to them: night-and-morning.weir.

upstream "db" {
  server "10.0.0.11:5432" {
    name      = "a"
    weight    = 10
    max_fails = 2
  }

  server "10.0.0.12:5432" {
    name = "b"
  }
}

listener "db" {
  listen   = ["127.0.0.1:5432"]
  upstream = "db"
}
