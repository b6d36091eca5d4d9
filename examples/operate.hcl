# Operated while it runs: weir status, peers, sessions, explain, drain, reload.
#
# The socket's directory must exist (systemd: RuntimeDirectory=weir). The commands
# find the socket in this file (-c), or where --admin or WEIR_ADMIN says.
#
#   weir drain orders/a              # before the maintenance of a server
#   weir peers orders --watch        # until its last session has ended
#   weir up orders/a
#
#   weir explain orders              # who would get the next session, and why
#   weir sessions --peer orders/b --older 1h
#   weir diff -c operate.hcl         # what would a reload change?

admin {
  listen = "unix:/run/weir/admin.sock" # for its owner alone
  group  = "adm"                       # and for this group
}

upstream "orders" {
  balance "least_conn" {}

  server "10.0.0.11:5432" {
    name = "a"
  }
  server "10.0.0.12:5432" {
    name = "b"
  }
}

listener "orders" {
  listen   = ["0.0.0.0:5432"]
  upstream = "orders"
}
