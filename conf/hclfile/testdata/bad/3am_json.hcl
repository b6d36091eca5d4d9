{
  "listener": {
    "listen": ["0.0.0.0:5432"],
    "upstream": "db"
  }
}
