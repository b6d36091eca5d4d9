upstream "a" {
  server "10.0.0.1:3306" {}
  server "10.0.0.2:3306" {}
}
listener "a" {
  listen   = ["127.0.0.1:9999"]
  upstream = "a"
  profile  = "mysql"
}
