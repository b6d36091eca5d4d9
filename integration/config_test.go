package integration_test

// oneServer is the plainest configuration: $listen in front of $server, all
// else at its default.
const oneServer = `
	upstream "u" {
	  server "$server" {}
	}
	listener "l" {
	  listen   = ["$listen"]
	  upstream = "u"
	}`
