upstream "db" {
}
upstream "standby" {
  server "10.0.0.1:5432" { backup = true }
}
listener "db" {
  listen = ["0.0.0.0:5432"]
}
listener "web" {
  upstream = "wbe"
}
listener "log" {
  listen   = []
  upstream = "standby"
}
