// Package admin is the control API: HTTP and JSON over a unix socket, or over
// TCP with a token. The commands of weir are its clients.
//
// [Listen] opens the place that `admin { listen }` names and [Server] answers
// there, for a stream.Server and the [Daemon] around it. [Client] asks. What they
// exchange are the types of api.go.
//
//	GET    /v1/status                       the process and its sums
//	GET    /v1/runtime                      what Go's runtime has done: of the status the part that is cheap to ask for
//	GET    /v1/upstreams                    upstreams with their peers
//	GET    /v1/peers?upstream=              peers alone: each with its axes and checks; groups and sources by upstream
//	GET    /v1/peers/UPSTREAM/PEER/history  its latest changes on the axes
//	GET    /v1/discovery                    the names and files that servers are discovered from
//	POST   /v1/peers/UPSTREAM/PEER          {"admin": "up|drain|down"} or {"weight": N}
//	GET    /v1/sessions                     ?listener= &peer= &older=10m &limit=100, the oldest first; limit=0 is all
//	GET    /v1/sessions?ended=true          the last ones that have ended, ?limit=100
//	GET    /v1/sessions/ID                  one, running or ended lately, with the decisions if they were recorded
//	DELETE /v1/sessions/ID                  resets both its sides
//	GET    /v1/explain?upstream=            &client= &listener=: what the next session would get, and why
//	POST   /v1/record                       {"record": "on|off|10m"}: whether decisions are remembered
//	POST   /v1/reload                       {"require_safe": false, "dry_run": false}
//	POST   /v1/upgrade                      {"binary": "", "drain": false}: another process takes over
//	GET    /v1/diff                         what a reload would change
//	POST   /v1/diff                         the same for a configuration that is sent, as conf.Config in JSON
//
// A peer is named by its name or address; an address that several share by
// ADDRESS#1, #2 and so on. Slashes in a name are written %2F. Numbers only grow
// meaning within /v1: fields are added, never changed. Only the body of POST
// /v1/diff is for commands of the same version.
//
// Units: durations are numbers of seconds in fields that end in _seconds; bytes
// and counts since the start; instants are RFC 3339. Parameters take durations as
// a configuration file does.
//
// Errors: {"error": "..."} for people, with 400 for what can't be, 401 without
// the token, 403 for pages in a browser and for what is allowed over a unix socket
// only, 404 for names that nothing has, 405 with the methods that there are, 409 for
// names that several have, for a reload that would end sessions and for what can't be
// changed during an upgrade, 413, 415 for a body that is not sent as JSON, 422 with
// "diagnostics" for a configuration with mistakes, 503 while weir stops. In Go they are [*Error].
//
// Bounds: [maxConnections] at a time, bodies of 64 KiB (configurations 32 MiB),
// ten seconds to send a request and thirty to take an answer. Who is slower is cut
// off, and nobody waits for him.
//
// Ownership: any goroutine may call a Server's methods. It closes the listeners
// it was given, and removes their sockets. A process that has handed over to another
// withdraws ([Server.Withdraw]): only the new one answers while the old one drains.
//
// Who may use it: the owner of a unix socket (mode 0600), with `group` that group
// too (0660); the kernel asks for write permission (unix(7)). Over TCP whoever
// has the token, and without one whoever is on this machine; pages in a browser
// there may not, see origin in server.go.
package admin
