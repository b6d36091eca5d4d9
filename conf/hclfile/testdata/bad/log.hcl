log {
  level  = "warning"
  format = "yaml"
  access = "stdot"
  fields = ["tiem", "$status", "status", "status", "proxy_protocol_addr", 5]
}
