global
    maxconn 4096

defaults
    mode tcp
    timeout connect 5s
    timeout client 10m

frontend pg
    bind *:5432
    default_backend pg

backend pg
    balance leastconn
    server a 10.0.0.1:5432 check weight 10
    server b 10.0.0.2:5432 check backup
