upstream "a" {
  server "10.0.0.1:5000" { max_conns = 10 }
  queue {}
  priority = 1
}
listener "above" {
  listen   = ["0.0.0.0:1"]
  upstream = "a"
  priority = 16
}
listener "below" {
  listen   = ["0.0.0.0:2"]
  upstream = "a"
  priority = -1
}
listener "word" {
  listen   = ["0.0.0.0:3"]
  upstream = "a"
  priority = "high"
}
