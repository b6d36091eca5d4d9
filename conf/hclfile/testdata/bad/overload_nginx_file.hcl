limit_conn_zone $binary_remote_addr zone=addr:10m;
upstream db {
    server 10.0.0.1:5432 max_conns=100;
    queue 100 timeout=70s;
    queue 20;
}
server {
    listen 5432;
    limit_conn addr 10;
    limit_conn_log_level error;
    proxy_download_rate 100k;
    proxy_upload_rate 1m;
    proxy_upload_rate $rate;
    proxy_next_upstream_timeout 5s;
}
