upstream "databases" {
  server "10.0.0.1:5432" {}
  server "10.0.0.2:5432" {}
  exactly_one = true

  health_check "tcp" {
    interval = "500ms"
  }
  health_check "tcp" {
    port = 3306
  }
  health_check "http" {
    interval = "1s"
    timeout  = "2s"
    port     = 8008
  }
}
upstream "one" {
  server "10.0.0.3:6000" { slow_start = "10s" }
}
upstream "generic" {
  server "10.0.0.4:3306" {}
}
upstream "file" {
  balance "least_conn" {}
  server "10.0.0.5:6000" {
    slow_start = "10s"
    down       = true
  }
  server_file = "peers.json"
}
listener "databases" {
  listen   = ["127.0.0.1:9999"]
  upstream = "databases"
}
listener "one" {
  listen   = ["127.0.0.1:9998"]
  upstream = "one"
}
listener "generic" {
  listen   = ["127.0.0.1:9997"]
  upstream = "generic"
  profile  = "generic"
}
listener "file" {
  listen   = ["127.0.0.1:9996"]
  upstream = "file"
}
