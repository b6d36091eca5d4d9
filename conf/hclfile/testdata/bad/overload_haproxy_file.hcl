backend db
    timeout queue 5s
    timeout queue 5000
    fullconn 1000
    option redispatch
    retries 3
    server a 10.0.0.1:5432 maxconn 100 maxqueue 20 check
frontend db
    maxconn 4096
    rate-limit sessions 100
