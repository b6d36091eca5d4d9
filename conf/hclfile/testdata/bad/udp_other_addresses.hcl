upstream "a" {
  server "10.0.0.1:53" {}
}
listener "a" {
  listen   = ["53 udp", "0.0.0.0:54/udp", "udp://127.0.0.1:55", "udp4@:56", "UDP:*:57", "[::]:58 udp reuseport", "udp:nowhere"]
  upstream = "a"
}
