upstream "a" {
  server "10.0.0.1:5000" {}
  server "10.0.0.2:5000" {}
}
listener "1" {
  listen   = ["0.0.0.0:1"]
  upstream = "a"
  hedge {
    after = "off"
    max   = 0
  }
}
listener "2" {
  listen   = ["0.0.0.0:2"]
  upstream = "a"
  hedge {
    after = "95%"
    max   = "0%"
  }
}
listener "3" {
  listen   = ["0.0.0.0:3"]
  upstream = "a"
  hedge {
    after = 0.95
    max   = "101%"
  }
}
listener "4" {
  listen   = ["0.0.0.0:4"]
  upstream = "a"
  hedge {
    after = "p10"
    max   = 10
  }
}
listener "5" {
  listen   = ["0.0.0.0:5"]
  upstream = "a"
  hedge {
    after = "p100"
    max   = "10"
  }
}
listener "6" {
  listen   = ["0.0.0.0:6"]
  upstream = "a"
  hedge {
    after = 20
    max   = true
  }
}
listener "7" {
  listen   = ["0.0.0.0:7"]
  upstream = "a"
  hedge {
    after = "P95"
    max   = "half"
  }
}
listener "8" {
  listen   = ["0.0.0.0:8"]
  upstream = "a"
  hedge {
    after = "soon"
    max   = "10%"
  }
}
listener "9" {
  listen   = ["0.0.0.0:9"]
  upstream = "a"
  hedge {
    after = p95
    max   = 10%
  }
}
listener "10" {
  listen   = ["0.0.0.0:10"]
  upstream = "a"
  hedge {
    after = "0s"
    max   = 1.5
  }
}
listener "words" {
  listen   = ["0.0.0.0:20"]
  upstream = "a"
  hedge    = "20ms"
  hedge_policy {}
}
listener "twice" {
  listen   = ["0.0.0.0:21"]
  upstream = "a"
  hedge {}
  hedge {
    delay = "20ms"
  }
}
