// Package balance picks one peer out of a slice: the balancing methods, as
// arithmetic over [Peer] values, equal to nginx's stream module where nginx has
// the method.
//
// A [Method] is made for the peers of one tier and asked by Pick for one that
// is [Peer.Eligible] and not yet tried in this session. What one session
// remembers between its attempts is a [Selection]. A method that follows its
// sessions beyond the pick is a [Tracker] too. [Explain] picks and tells how the
// choice came about. The caller (stream/upstream) owns everything around the
// pick: tiers, the single-peer path, retries, connection counts and what a
// failure costs.
//
// # What all methods share
//
// Eligible is one test, written once: up, not unavailable by max_fails, not at
// max_conns. Backups are a tier of their own: a session for which no primary is
// eligible moves there for good, with its tried peers and its search forgotten,
// and the same method picks there. That holds for the keyed methods too, where
// nginx refuses backup or ignores the key, depending on the order of lines: keys
// then lie among the backups alone, and return with the first primary. Only
// single sees primaries and backups as one list.
//
// # round_robin
//
// Smooth weighted round robin (ngx_stream_upstream_get_peer). Each peer has an
// account, its current weight. A pick adds every eligible peer's effective
// weight to its account, takes the greatest account, the first of equals, and
// has the winner pay what all were given. The accounts always sum up to what
// they did before; a cycle returns to zero. Weights 5, 1, 1:
//
//	pick   after adding   winner   after paying
//	1     5  1  1        a      -2  1  1
//	2     3  2  2        a      -4  2  2
//	3     1  3  3        b       1 -4  3
//	4     6 -3  4        a      -1 -3  4
//	5     4 -2  5        c       4 -2 -2
//	6     9 -1 -1        a       2 -1 -1
//	7     7  0  0        a       0  0  0
//
// A failure lowers the effective weight by weight / max_fails in whole numbers:
// nothing, if the weight is the smaller one. Each pick in which the peer is
// eligible gives one back, after it was added: what is lost comes back per pick,
// not with time, and not with success. The account is never put right. What a
// peer would have been given in the picks it was away or weakened, the others
// have had: its share is behind by a constant number of sessions for ever,
// while its rate is the old one again. Weight 10 with max_fails 2 against weight
// 1, two failures at night and picks after fail_timeout:
//
//	event                 a current  effective   b current
//	pick a                       -1         10           1
//	a fails                      -1          5           1
//	retry, pick b                -1          5           1
//	pick a                       -2          6           2
//	a fails                      -2          1           2
//	retry, pick b                -2          1           2
//	11 s later, pick b           -1          2           1
//	11 s later, pick b            1          3          -1
//	11 s later, pick a            0          4           0
//	11 s later, pick a           -1          5           1
//	11 s later, pick a           -2          6           2
//
// The heavy peer begins the morning in debt and with 1 of its weight 10; the
// first two sessions go to the light one. After 200 the heavy one has 180, where
// its weight says 181.8, and it will never make up for the difference.
//
// nginx looks at every peer in every pick, and so does this package below 32
// peers. Among more, rounds are made lazily (lazyRounds): as long as the same
// peers take part with their whole weights, the pick keeps a heap for each weight
// and touches log n accounts. 1,000 peers: 5,000 ns looking at each, 130 ns so;
// 100 peers: 590 and 90 (BenchmarkPick, EPYC). Of a weir with 1,000 servers and a
// new connection for each request that is 9 % of its CPU (two copies of each
// binary, 20 interleaved rounds); with 100 servers the two can't be told apart.
// What changes who takes part (failures, verdicts, the operator, max_conns, slow
// start) and who asks for an account calls [Settle] first.
//
// # weighted_round_robin
//
// The classic of the Linux Virtual Server: walks round the list at a level that
// goes down from the greatest weight by the greatest common divisor, stopping at
// each peer whose weight reaches it. Exact per cycle as round_robin is, but the
// heavy peers' turns come in bursts, and failures do not lower the weight.
// Weights 4, 3, 2:
//
//	level   stops
//	4       a
//	3       a b
//	2       a b c
//	1       a b c
//
// # least_conn
//
// Fewest connections for the weight, compared without dividing
// (ngx_stream_upstream_get_least_conn_peer). A tie starts a round of smooth
// round robin among the tied peers from the first one on; without a tie no
// account moves, and no effective weight comes back. Zero connections are equal
// whatever the weights. Weights 3, 1, 1, all sessions stay:
//
//	session   connections/weight   tied    picked
//	1          0/3  0/1  0/1        a b c  a
//	2          1/3  0/1  0/1        b c    b
//	3          1/3  1/1  0/1               c
//	4          1/3  1/1  1/1               a
//	5          2/3  1/1  1/1               a
//	6          3/3  1/1  1/1        a b c  c
//
// # least_time
//
// Least product of the average time and connections + 1, for the weight
// (ngx_stream_upstream_get_least_time_peer). A sample counts a twentieth of the
// average. Times are raised to the next multiple of 20 ms, so that noise does
// not decide, and end at 5 s; a peer that nobody has picked for longer than
// fail_timeout (here 10 s) has its time halved for each fail_timeout + 1 s:
//
//	average   not picked for   counts as   connections   load
//	  15 ms          0 s           20 ms          0          20
//	  19 ms          0 s           20 ms          2          60
//	  45 ms          0 s           60 ms          0          60
//	  45 ms          0 s           60 ms          1         120
//	 900 ms          0 s          920 ms          0         920
//	 900 ms         22 s          240 ms          0         240
//	7000 ms          0 s         5000 ms          0        5000
//
// Idle peers of unequal weight do not tie: the heaviest has the least load. With
// inflight the age of running sessions counts too, so that a peer that hangs is
// noticed before its sessions end.
//
// # hash
//
// The CRC-32 of the key, and a round's number before it, gives a lot; each peer
// holds as many as its weight, those that are down too
// (ngx_stream_upstream_get_hash_peer). A lot of a peer that can't be picked is a
// miss and the next round adds its hash. After the 21st miss the session is
// round robin's. Weights 5, 3, 2, a is down, key 10.0.0.3:
//
//	round   lot of 10   holder
//	0       2           a, down
//	1       1           a, down
//	2       9           c, eligible
//
// Changing any weight or server moves most keys. Hash picks move no account, so
// a weight lost by failures does not come back by them.
//
// With consistent = true the peers have 160 points per weight on a ring, placed
// by the server's text as nginx and ketama do, and a key belongs to the first
// point after its CRC-32 (ngx_stream_upstream_get_chash_peer). Without a peer
// only that peer's keys move. A miss is a point, not a peer. Lines with the same
// text share their points and take turns there. Three peers, c is down, key
// 192.0.2.2:
//
//	point   value        server
//	111     1121023788   c, down
//	112     1124582825   c, down
//	113     1170200268   a, eligible
//
// # ip_hash
//
// nginx http's (ngx_http_upstream_get_ip_hash_peer): three octets of an IPv4
// address, all 16 bytes of IPv6, a constant for clients on unix sockets. A /24
// goes to one peer, for better or worse. Weights 5, 3, 2:
//
//	client          lot of 10   peer
//	10.0.0.7        5           b
//	10.0.0.250      5           b
//	10.0.1.7        6           b
//	unix socket     5           b
//
// # maglev
//
// Every peer claims the slots of a table in an order of its own, in turn, as
// often as its weight says (Eisenbud et al., NSDI 2016). The table depends on
// addresses and weights alone: machines that share nothing agree on every key.
// Shares are even to 1 %, at the price that a few keys beside those of a peer
// that goes move too. Three peers in a tiny table, and two of them:
//
//	peers           table of 13 slots
//	a b c           b a a c b c a c a b a b c
//	a b             b b a b b a a a a b a a b
//
// While a peer is merely not eligible the table stays; its keys go to the owner
// of the next slot whose owner is, and no other key moves.
//
// # random
//
// A lot by weight (ngx_stream_upstream_get_random_peer); after 20 misses round
// robin. With choices = 2 the less loaded of two different peers by lot, the
// second of equals. As heavy peers are drawn first more often, they get less
// than their weight while everything is idle, and what is due to it under load:
//
//	peer   weight   choices = 1   choices = 2, idle   choices = 2, all sessions held
//	a      5        71.4 %        23.8 %              71.4 %
//	b      1        14.3 %        38.1 %              14.3 %
//	c      1        14.3 %        38.1 %              14.3 %
//
// # epsilon_greedy
//
// A share epsilon of the sessions explores by lot, the rest goes to the peer with
// the least expected time to a success, for its weight: latency / success rate.
// Samples count half after half_life:
//
//	connected   first byte   weight   expected per weight
//	10 of 10      19 ms         1         20.0 ms
//	 5 of 10       9 ms         1         20.0 ms
//	 9 of 10       9 ms         1         11.1 ms
//	10 of 10      39 ms         4         10.0 ms
//
// # first and single
//
// first fills the first peer to its max_conns, then the next. single has one
// active peer and no second at the same time: when that one is down or
// unavailable, the first in the list that is not takes over, and keeps the part
// unless failback is asked for.
//
//	event                  first   single   single, failback
//	all up                 a        a        a
//	a at max_conns         b        -        -
//	a has room again       a        a        a
//	a unavailable          b        b        b
//	a available again      a        b        a
//	b unavailable          a        a        a
//
// # Slow start
//
// A peer that has just come, or come back, takes part in a share of the picks that
// grows from 0 to 1 in its slow_start (slowstart.go). least_conn, least_time and
// random's choice of two would give it all of those; they count, besides its own
// connections, (1 - share) times the others' mean for its weight, so that it reaches
// their level when slow start ends and not before. epsilon_greedy has it take part
// in its share of the picks that its weight stands for. With hash methods the keys
// of a peer in slow start are elsewhere for a part of their sessions. single gives
// its one active peer everything. Who would have nobody else gets it all the same.
//
// # Which one
//
//   - Short sessions of equal cost: round_robin.
//   - Long sessions, or of unequal cost (databases, brokers): least_conn. A new
//     peer draws all sessions until it has as many as the others: give it a
//     slow_start.
//   - Peers of unequal speed: least_time, with inflight if some may hang.
//   - The same client or key on the same server: hash with consistent = true, as
//     it keeps keys where nginx has put them; maglev if several balancers must
//     agree and shares must be even; plain hash or ip_hash only to stay with a
//     placement that exists.
//   - Several balancers before the same servers: random with choices = 2, whose
//     mistakes do not add up as those of several least_conn do.
//   - Servers whose quality changes and is not known beforehand: epsilon_greedy.
//   - As few servers as needed: first. One writer: single.
//
// Units: weights and counts are plain numbers, failure windows compare whole
// [Seconds], times of sessions are [Millis], both on the caller's monotonic
// clock; [Never] lies before every window.
//
// Errors: [New] returns one for a method that does not exist or can't be set up.
// Nothing else fails; no eligible peer is the index -1.
//
// Ownership: the mutable fields of a Peer and all of a Method are guarded by
// whatever lock the caller takes around each call (in weir: the mutex of the
// upstream group). A Selection belongs to one session. Nothing is allocated by a
// pick, unless it is to be explained.
//
// It knows no sockets, no locks, no configuration and reads no clock.
package balance
