worker {
  count        = 1.5
  max_sessions = 1000000000000000000000000
}
