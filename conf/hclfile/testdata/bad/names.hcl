upstream "" {
  server "10.0.0.1:5432" {}
}
upstream {
  server "10.0.0.1:5432" {}
}
listener "a b" {
  listen   = ["0.0.0.0:5432"]
  upstream = ""
}
listener "a" "b" {
  listen   = ["0.0.0.0:5433"]
  upstream = null
}
