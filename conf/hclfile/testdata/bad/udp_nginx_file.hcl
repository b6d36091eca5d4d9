upstream dns {
    server 10.0.0.1:53;
}
server {
    listen 53 udp;
    listen [::]:53 udp reuseport;
    listen 5353 reuseport;
    proxy_pass dns;
    proxy_timeout 20s;
    proxy_requests 10;
    proxy_responses 1;
}
server {
    listen 127.0.0.1:514 udp;
    proxy_responses 0;
}
listener "attributes" {
  listen          = ["0.0.0.0:514"]
  protocol        = "udp"
  upstream        = "dns"
  proxy_responses = 0
  proxy_requests  = 1
  proxy_timeout   = "1m"
  dgram_bind      = ":514"
  udp_timeout     = "1m"
  tcp {}
}
