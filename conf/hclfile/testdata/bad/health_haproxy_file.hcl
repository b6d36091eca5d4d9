resolvers dns
    nameserver a 10.0.0.2:53

backend pg
    option httpchk GET /primary
    option pgsql-check user weir
    http-check expect status 200
    tcp-check send PING\r\n
    tcp-check expect string PONG
    timeout check 2s
    default-server inter 3s fall 3 rise 2 on-marked-down shutdown-sessions
    server a 10.0.0.1:5432 check inter 2000 rise 3 fall 2 port 8008 on-marked-down shutdown-sessions slowstart 10s
    server b 10.0.0.2:5432 check-ssl inter 2s observe layer4 maxconn 100
    server c db.example:5432 resolvers dns disabled
