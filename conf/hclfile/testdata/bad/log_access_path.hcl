log {
  access = "logs/access.log"
  fields = []
}
log {
  access = "/var/log/"
  level  = 3
}
