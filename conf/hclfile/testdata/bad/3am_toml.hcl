[upstream]
server = "10.0.0.1:5432"

[[listener]]
listen = "0.0.0.0:5432"
upstream = "db"
