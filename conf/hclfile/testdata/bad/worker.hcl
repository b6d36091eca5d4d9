worker {
  count            = 0
  max_sessions     = -1
  shutdown_timeout = "10"
}
worker "a" {
}
