stream {
    upstream backend {
        least_conn;
        server 10.0.0.1:5432 weight=5 max_fails=2 fail_timeout=10s;
        server 10.0.0.2:5432 backup;
        server db.example:5432;
    }
    server {
        listen 5432;
        proxy_pass backend;
        proxy_timeout 10m;
        proxy_connect_timeout 1s;
    }
}
