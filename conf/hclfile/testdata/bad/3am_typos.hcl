wroker {
  cuont = 2
}
upsteram "db" {
  sever "10.0.0.1:5432" {}
}
upstream "db" {
  server "10.0.0.1:5432" {
    wieght   = 3
    maxfails = 2
  }
}
listener "db" {
  lisen       = ["0.0.0.0:5432"]
  upstream    = "bd"
  idletimeout = "10m"
  conect_timeout = "1s"
}
