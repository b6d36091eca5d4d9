upstream "a" {
  hash $remote_addr consistent;
  server "10.0.0.1:80" {}
}
upstream "b" {
  random two least_time=first_byte;
  server "10.0.0.1:80" {}
}
upstream "c" {
  least_time connect inflight;
  server "10.0.0.1:80" {}
}
upstream "d" {
  ip_hash;
  server "10.0.0.1:80" {}
}
upstream "e" {
  balance source
  hash-type consistent
  server "10.0.0.1:80" {}
}
upstream "f" {
  balance random(2)
  server "10.0.0.1:80" {}
}
upstream "g" {
  hash = "$remote_addr"
  server "10.0.0.1:80" {}
}
upstream "h" {
  balance = "leastconn"
  server "10.0.0.1:80" {}
}
upstream "i" {
  least_conn {}
  server "10.0.0.1:80" {}
}
