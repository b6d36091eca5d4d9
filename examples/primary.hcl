# A PostgreSQL primary and its replicas: writers reach whoever is the primary,
# readers the replicas that keep up.
#
#   weir check --effective examples/primary.hcl   # every value, the profile's too

locals {
  servers = {
    a = "10.0.0.11:5432"
    b = "10.0.0.12:5432"
    c = "10.0.0.13:5432"
  }
}

upstream "primary" {
  dynamic "server" {
    for_each = local.servers
    labels   = [server.value]
    content {
      name = server.key
    }
  }

  health_check "postgres" {
    role     = "primary"
    user     = "weir" # CREATE ROLE weir LOGIN; it needs no rights
    interval = "1s"
  }

  # While two claim to be the primary, stay with the one that was.
  exactly_one = true
}

upstream "replicas" {
  balance "least_conn" {}

  dynamic "server" {
    for_each = local.servers
    labels   = [server.value]
    content {
      name       = server.key
      slow_start = "30s"
    }
  }

  health_check "postgres" {
    role    = "replica"
    max_lag = "5s"
    user    = "weir"
  }
}

# The profile closes the sessions of a server that fails or is demoted, leaves
# those of a replica that lags alone, and ends no session for being idle.
listener "write" {
  listen   = ["0.0.0.0:5432"]
  upstream = "primary"
  profile  = "postgres"
}

listener "read" {
  listen   = ["0.0.0.0:5433"]
  upstream = "replicas"
  profile  = "postgres"
}
