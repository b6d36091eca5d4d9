// Command bench compares weir end to end with what its users run today: a
// direct connection, nginx's stream module and HAProxy in tcp mode.
//
// A scenario (one scenario_*.go file each) states its sizes, connections and
// warm-up, starts a backend and every contestant, and then goes through its
// rounds: in each round every contestant runs once, in an order that rotates,
// so that a slow minute of the machine hits all of them. A contestant's figure
// is the median over the rounds; min..max stands beside it. Whether a run tells two
// contestants apart is said by the Mann-Whitney U test, as in benchstat; it takes
// four rounds to tell anything.
//
// A contestant is a product in a setting: nginx and nginx-2 are one product with
// one and two workers. Comparisons between products take each in the setting
// that is best in the scenario's first figure, and all its figures from that one;
// the rival is the better of nginx and HAProxy, figure by figure. The summary
// holds the ratios against the goals of targets.go.
//
// With -out a report is saved: every sample as JSON (report.go, with a format
// number), the tables as Markdown, and two plots as SVG. "bench report FILE.json"
// makes tables and plots from a saved one again, "bench compare OLD.json NEW.json"
// tells what changed between two, each product in the setting that was its best in
// the old one.
//
// With -before another weir takes part, outside the comparison: what a change does
// is told in the same rounds, as two reports of this machine differ by more than most
// changes do.
//
// "bench overload" is no comparison with others: a server that more clients make
// slower, a load that triples, and what adaptive_limit makes of it (overload.go;
// package overload has the server and its clients). It saves a report of its own
// kind, with the time series and a plot of them.
//
// Units: throughput is in Gbit/s (10^9 bits) of payload as the receiver saw it
// where the tool reports it; rates are per second; latencies in microseconds;
// proxy CPU is user plus system time of the proxy's whole process tree per unit
// of work (Gbit, request, connection, round trip), with the kernel's tick of
// 10 ms as the resolution over one run; memory is resident set, so the kernel's
// socket buffers are not in it. A ratio is figure over figure: above 1 is
// better for rates, below 1 is better for CPU, latency and memory.
//
// Errors: a run that ends with socket errors or unexpected answers is kept but
// flagged; a run that cannot be finished counts as failed, is listed, and makes
// the exit code 1. A contestant that does not start ends the whole comparison;
// the report then has what came before, and says so. A target that was missed is
// no error. A file that is no report, or of another format, is refused.
//
// The floor is one more contestant, and no rival: weir's system calls in a small
// C program (floor/relay.c). What it leaves to weir is the most that there is to
// gain around the calls; what it does not reach itself, no relay of that kind
// will.
//
// UDP scenarios compare with nginx and a direct connection only. Their datagrams
// say who they are; one that is not what was sent, or reaches another client,
// fails its run. Their load generator is one thread that is the clients and the
// server (see udp.go), so direct is what that thread can do alone, and a proxy
// that leaves it no spare time is limited by it: then the CPU per datagram tells
// more than the rate.
//
// Every run also records how many cores something else used meanwhile; a table
// whose runs did not have the machine to themselves says so. With -patience such
// runs are repeated for a while, but never one that failed.
//
// Ownership: only the main goroutine starts processes, and it stays on the
// process's first thread, because Linux delivers a parent-death signal when the
// starting thread ends. Every process is ended by its pid, also after SIGINT.
//
// Kernel needs: as root the comparison runs in a network namespace of its own,
// with its own loopback, ports and TIME_WAIT table and with cubic as congestion
// control for every socket, so the machine's settings stay as they are. Without
// root, or where namespaces are refused, it runs on the machine's loopback under
// the settings in force, and says so. Nothing leaves 127.0.0.0/8.
//
// Left to others: the client, the proxy and the backend share this machine's
// cores and its memory; what a network card, a real round-trip time or packet
// loss would change is not seen here.
package main
