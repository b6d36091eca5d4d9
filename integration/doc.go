// Package integration tests the whole product: it builds the weir binary, runs
// it with a configuration file, sends traffic through it with real programs and
// with sockets of its own, and looks at what clients, peers, logs and /proc say.
// It holds tests only.
//
// A test starts weir with start, which returns a proxy: the running process
// with its address, access log and process log. Peers are goroutines (peer_test.go),
// this test binary run again in a role (role_test.go), or programs (program_test.go).
// The tests of failover have a clientele (clientele_test.go), and tell what
// happened when, beside what the configuration promises (axes_test.go).
// The tests of what weir does against overload share their server and its clients
// with the bench (package bench/overload).
// Package netns has namespaces for what needs a network of its own.
//
// Tests that wait most of the time run beside each other (t.Parallel), three for
// each CPU. Those that keep the machine busy, or that measure it, run alone.
//
// Units and ranges: every wait polls until a deadline; WEIR_TEST_TIMEOUT_SCALE
// multiplies all deadlines on a slow machine. WEIR_LONG=1 runs loads for 30 s
// instead of a few. WEIR_TEST_BINARY names a binary to test instead of one
// built from source.
//
// Errors: a test that lacks a program or a privilege skips and names it, or
// fails if CI is set in the environment. A run fails as a whole if a process,
// goroutine or descriptor is left behind at its end.
//
// Ownership: whoever starts a process ends it, by its id, in the test's
// cleanup; the kernel ends it if the test binary dies. Traffic stays on the
// loopback interface and in the tests' own namespaces.
//
// It needs Linux and Go; root for namespaces; and for their tests the Debian
// packages postgresql, mariadb-server-core, galera-4, redis-server, redis-tools,
// rabbitmq-server, mosquitto, mosquitto-clients, nats-server, iperf3, nginx,
// wrk, unbound, bind9-dnsutils, bsdutils and iproute2. What can be tested without a process is left to the packages.
package integration
