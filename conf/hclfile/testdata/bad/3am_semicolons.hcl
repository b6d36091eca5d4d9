upstream "db" {
  server "10.0.0.1:5432" { weight = 3; max_fails = 2; }
  server "10.0.0.2:5432";
  server "10.0.0.3:5432" weight=3
}
listener "db" {
  listen   = ["0.0.0.0:5432"];
  upstream = "db";
}
