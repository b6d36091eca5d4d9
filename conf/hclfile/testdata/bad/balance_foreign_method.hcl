upstream "u0" {
  balance "LEAST_REQUEST" {}

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u1" {
  balance "RING_HASH" {}

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u2" {
  balance "MAGLEV" {}

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u3" {
  balance "RANDOM" {}

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u4" {
  balance "random two" {}

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u5" {
  balance "random two least_time=first_byte" {}

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u6" {
  balance "hash $remote_addr consistent" {}

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u7" {
  balance "least_time=last_byte inflight" {}

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u8" {
  balance "wrr" {}

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u9" {
  balance "wlc" {}

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u10" {
  balance "lc" {}

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u11" {
  balance "sh" {}

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u12" {
  balance "mh" {}

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u13" {
  balance "source" {}

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u14" {
  balance "static-rr" {}

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u15" {
  balance "random(2)" {}

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u16" {
  balance "hdr(host)" {}

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u17" {
  balance "uri" {}

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u18" {
  balance "url_param" {}

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u19" {
  balance "Least-Conn" {}

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u20" {
  balance "failover" {}

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u21" {
  balance "hash " {}

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u22" {
  balance "" {}

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

upstream "u23" {
  balance "ring_hash" {
    key     = remote_adr
    choices = 2
  }

  server "10.0.0.1:80" {}
  server "10.0.0.2:80" {}
}

listener "u0" {
  listen   = ["127.0.0.1:1000"]
  upstream = "u0"
}
