# One block for many servers, one listener for many ports.

locals {
  brokers = {
    a = "10.0.0.21"
    b = "10.0.0.22"
    c = "10.0.0.23"
  }
}

worker {
  count            = 2
  shutdown_timeout = "1m"
}

upstream "broker" {
  dynamic "server" {
    for_each = local.brokers
    labels   = ["${server.value}:5672"]
    content {
      name = server.key
    }
  }
}

listener "broker" {
  listen   = ["0.0.0.0:5672-5680"]
  upstream = "broker"
}
