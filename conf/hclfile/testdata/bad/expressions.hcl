locals {
  a = local.b
  b = "${local.a}"
  c = fiel("x")
  d = file("missing.txt")
  e = 1 + "x"
  f = local.port
  g = local
  h = tonumber("x")
}
locals {
  a = 2
}
upstream "db" {
  server "10.0.0.1:5432" {
    weight = local.wieght
    name   = env.NOT_THERE
    max_fails = local.e
  }
}
listener "db" {
  listen   = ["127.0.0.1:${local.c}"]
  upstream = locals.name
  congestion = file("..")
}
