# DNS: UDP, and TCP for answers too large for a datagram, on one port.

# A query without an answer is its server's failure. Datagrams get lost, so
# that one such query must not be enough.
upstream "dns" {
  server "10.0.0.31:53" {
    max_fails = 5
  }

  server "10.0.0.32:53" {
    max_fails = 5
  }
}

# Each query comes from a port of its own, so that it is a session, which ends
# with its answer.
listener "dns-udp" {
  listen   = ["0.0.0.0:53", "[::]:53"]
  protocol = "udp"
  upstream = "dns"

  udp {
    responses    = 1
    idle_timeout = "5s" # how long a client waits for its answer
  }
}

listener "dns-tcp" {
  listen   = ["0.0.0.0:53", "[::]:53"]
  upstream = "dns"

  idle_timeout = "30s"
}
