upstream "a" {
  server "10.0.0.1:5432" {}
  server "10.0.0.2:5432" {}
}
listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
  profile  = "postgres"
}
