upstream "a" {
  server "10.0.0.1:5000" {}
}
listener "1" {
  listen   = ["0.0.0.0:1"]
  upstream = "a"
  limits {
    sessions            = -1
    sessions_per_client = "off"
    accept_rate         = 500
    upload_rate         = "10MB/s"
    download_rate       = "10Mbit/s"
  }
}
listener "2" {
  listen   = ["0.0.0.0:2"]
  upstream = "a"
  limits {
    sessions            = "auto"
    sessions_per_client = 1.5
    accept_rate         = "10MiB/s"
    upload_rate         = 1048576
    download_rate       = "10MiB"
  }
}
listener "3" {
  listen   = ["0.0.0.0:3"]
  upstream = "a"
  limits {
    accept_rate         = 0
    upload_rate         = 0
    download_rate       = "0"
  }
}
listener "4" {
  listen   = ["0.0.0.0:4"]
  upstream = "a"
  limits {
    accept_rate         = "unlimited"
    upload_rate         = "none"
    download_rate       = true
  }
}
listener "5" {
  listen   = ["0.0.0.0:5"]
  upstream = "a"
  limits {
    sessions_per_client = 1
    ipv4_prefix         = 33
    ipv6_prefix         = 0
    upload_rate         = 0.5
    download_rate       = "fast"
  }
}
listener "6" {
  listen   = ["0.0.0.0:6"]
  upstream = "a"
  limits {
    sessions_per_client = 1
    ipv4_prefix         = "/24"
    rate                = "10MiB/s"
    max_sessions        = 10
  }
}
listener "attribute" {
  listen   = ["0.0.0.0:20"]
  upstream = "a"
  limits   = 10
  sessions = 10
}
