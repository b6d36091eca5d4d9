// Package dnstest gives tests a DNS server of their own on a loopback address,
// whose answers they change while it runs.
//
// A [Server] is made by [Start] and lives until its test ends. It answers over
// UDP and TCP on one port, as an authoritative server that also takes any other
// name. A name that nothing was set for does not exist (NXDOMAIN); one whose
// records were set to none is empty (NOERROR). [Server.SetFailure] and its like
// make it fail in the ways that servers do.
//
// Units: a TTL is whole seconds, and 0 is one. Names are taken with and without
// a dot at the end.
//
// Errors: everything that goes wrong fails the test.
//
// Ownership: all methods may be called by any goroutine. A change holds for
// every answer that is sent after it.
package dnstest
