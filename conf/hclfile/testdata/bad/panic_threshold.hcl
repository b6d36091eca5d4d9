upstream "a" {
  server "10.0.0.1:6000" {}
  panic_threshold = "30"
}
upstream "b" {
  server "10.0.0.1:6000" {}
  panic_threshold = "none"
}
upstream "c" {
  server "10.0.0.1:6000" {}
  panic_threshold = 30
}
upstream "d" {
  server "10.0.0.1:6000" {}
  panic_threshold = "0.3"
}
upstream "e" {
  server "10.0.0.1:6000" {}
  exactly_one     = true
  panic_threshold = "30%"
}
upstream "f" {
  server "10.0.0.1:6000" {}
  exactly_one     = "yes"
  panic_threshold = true
}
listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
}
