// Package netns gives tests network namespaces of their own, joined by veth
// pairs, so that they can lose packets and links without touching the
// machine's network.
//
// A [Namespace] is made by [New] and lives until its test ends. [Namespace.Do]
// runs a function inside: sockets that it opens and processes that it starts
// belong to the namespace for good. [Join] puts a veth pair between two
// namespaces and returns both ends.
//
// Errors: [Check] says what this process lacks. Everything else fails the test.
//
// Ownership: a Namespace may be used by any goroutine. Do holds on to its
// thread while it runs; goroutines that the function starts are outside.
// Closing the last descriptor, process and socket of a namespace removes its
// interfaces, so nothing has to be cleaned up.
//
// It needs CAP_SYS_ADMIN and the program ip of iproute2.
package netns
