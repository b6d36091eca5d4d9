upstream "a" {
  server "10.0.0.1:5000" {}
  server "10.0.0.2:5000" {}
}
listener "1" {
  listen   = ["0.0.0.0:1"]
  upstream = "a"
  next_upstream {
    backoff           = 0
    before_first_byte = "true"
  }
}
listener "2" {
  listen   = ["0.0.0.0:2"]
  upstream = "a"
  next_upstream {
    backoff           = "61s"
    before_first_byte = yes
  }
}
listener "3" {
  listen   = ["0.0.0.0:3"]
  upstream = "a"
  next_upstream {
    backoff           = 0.9
    before_first_byte = 1
  }
}
listener "4" {
  listen   = ["0.0.0.0:4"]
  upstream = "a"
  next_upstream {
    backoff           = 25ms
    before_first_byte = "sometimes"
  }
}
listener "outside" {
  listen            = ["0.0.0.0:20"]
  upstream          = "a"
  backoff           = "25ms"
  before_first_byte = true
}
