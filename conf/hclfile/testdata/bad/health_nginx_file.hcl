resolver 10.0.0.2 [::1]:5353 valid=30s;
resolver_timeout 2s;
match ping {
  send "PING\r\n";
  expect ~* "PONG";
}
upstream a {
  zone a 64k;
  server 10.0.0.1:6000 slow_start=30s resolve;
  server example.com service=http resolve;
  server db.example service=_pg._tcp.x;
}
server {
  listen 6000;
  proxy_pass a;
  health_check interval=10 passes=2 fails=3 port=8080 match=ping;
  health_check_timeout 1s;
}
server {
  listen 6001;
  health_check;
}
