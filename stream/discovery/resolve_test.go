package discovery

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/integration/dnstest"
)

func TestFollowsName(t *testing.T) {
	s := dnsServer(t, "10.0.0.2", "10.0.0.1", "fd00::1")
	d, r := start(t, Options{})
	block := resolved("db.example:5432")
	block.Name, block.Weight, block.MaxConns, block.Down, block.SlowStart = "main", 3, 7, true, time.Minute
	c := config(fast(s.Addr()), block)
	adopt(t, d, c)
	want := block
	want.Resolve, want.Address.Host = false, "10.0.0.1"
	want.Host, want.Origin = "db.example", "an address of db.example"
	if got := d.Expand(t.Context(), &c.Resolver, &c.Upstreams[0]); len(got) != 3 || got[0] != want {
		t.Errorf("got %+v, want first %+v", got, want)
	}
	s.SetA("db.example", time.Second, "fd00::1", "10.0.0.9")
	become(t, d, c, "10.0.0.9:5432=main*3", "[fd00::1]:5432=main*3")
	await(t, "the change is told", func() bool { return r.calls("db") > 0 })
	await(t, "the change is logged", func() bool { return len(r.lines("10.0.0.9")) > 0 })
	line := r.lines("10.0.0.9")
	if len(line) != 1 || !strings.Contains(line[0], `added=[10.0.0.9]`) || !strings.Contains(line[0], `removed="[10.0.0.1 10.0.0.2]"`) || !strings.Contains(line[0], "servers=2") {
		t.Errorf("the change is logged as %q", line)
	}
}

// With a TTL of 1 s a change is seen within 1 s and 10 %, and what the machine
// takes.
func TestFollowsTTL(t *testing.T) {
	s := dnsServer(t, "10.0.0.1")
	d, _ := start(t, Options{})
	r := fast(s.Addr())
	r.Valid = 0
	c := config(r, resolved("db.example:5432"))
	began := time.Now()
	wantServers(t, adopt(t, d, c), "10.0.0.1:5432=db.example:5432")
	for i, ip := range []string{"10.0.0.2", "10.0.0.1", "10.0.0.2"} {
		s.SetA("db.example", time.Second, ip)
		become(t, d, c, ip+":5432=db.example:5432")
		if got := sourceOf(t, d); got.Changes != uint64(i+2) {
			t.Errorf("after flip %d: %+v", i+1, got)
		}
	}
	if n, most := s.Questions("db.example", dns.TypeA), 1+int(time.Since(began)/time.Second); n > most {
		t.Errorf("asked %d times in %v, with a TTL of 1 s", n, time.Since(began))
	}
}

// withoutLastRecord cuts an answer where its last record begins, so that the
// rest would be a valid set.
func withoutLastRecord(answer []byte) []byte {
	in := new(dns.Msg)
	if err := in.Unpack(answer); err != nil || len(in.Answer) < 2 {
		return answer
	}
	in.Extra, in.Answer = nil, in.Answer[:len(in.Answer)-1]
	short, err := in.Pack()
	if err != nil {
		panic(err)
	}
	copy(short[4:12], answer[4:12]) // the counts of records
	return short
}

func TestLastAnswerStays(t *testing.T) {
	fail := func(rcode int) func(*dnstest.Server, bool) {
		return func(s *dnstest.Server, on bool) {
			if !on {
				rcode = dns.RcodeSuccess
			}
			s.SetFailure(rcode)
		}
	}
	malformed := func(change func([]byte) []byte) func(*dnstest.Server, bool) {
		return func(s *dnstest.Server, on bool) {
			if !on {
				change = nil
			}
			s.SetMalformed(change)
		}
	}
	for name, set := range map[string]func(*dnstest.Server, bool){
		"SERVFAIL": fail(dns.RcodeServerFailure),
		"REFUSED":  fail(dns.RcodeRefused),
		"NOTIMP":   fail(dns.RcodeNotImplemented),
		"silent":   (*dnstest.Server).SetSilent,
		"lame":     (*dnstest.Server).SetLame,
		"garbage":  malformed(func(b []byte) []byte { return append(b[:12:12], "\xff\xff\xff\xff"...) }),
		"nothing":  malformed(func([]byte) []byte { return []byte{} }),
		"short":    malformed(withoutLastRecord),
		// An answer that has the question of another.
		"foreign": malformed(func(b []byte) []byte { b[13] ^= 1; return b }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := dnsServer(t, "10.0.0.1", "10.0.0.2", "10.0.0.3")
			d, r := start(t, Options{})
			res := fast(s.Addr())
			res.Timeout = time.Second
			c := config(res, resolved("db.example:5432"))
			if got := adopt(t, d, c); len(got) != 3 {
				t.Fatalf("servers are %q", got)
			}
			failAndRecover(t, d, c, r, func() { set(s, true) }, func() { set(s, false) })
			if r.calls("db") != 0 {
				t.Errorf("told of changes %d times", r.calls("db"))
			}
		})
	}
}

func TestPositiveEmpty(t *testing.T) {
	for name, empty := range map[string]func(*dnstest.Server){
		"NXDOMAIN":      func(s *dnstest.Server) { s.Remove("db.example") },
		"no records":    func(s *dnstest.Server) { s.SetA("db.example", time.Second) },
		"blocked":       func(s *dnstest.Server) { s.SetA("db.example", time.Second, "0.0.0.0", "::") },
		"alias to none": func(s *dnstest.Server) { s.SetCNAME("db.example", time.Second, "none.example") },
	} {
		t.Run(name, func(t *testing.T) {
			s := dnsServer(t, "10.0.0.1")
			d, r := start(t, Options{})
			c := config(fast(s.Addr()), resolved("db.example:5432"))
			adopt(t, d, c)
			empty(s)
			become(t, d, c)
			got := sourceOf(t, d)
			if !got.StaleSince.IsZero() || got.Servers != 0 || got.Failures != 0 {
				t.Errorf("the source says %+v", got)
			}
			s.SetA("db.example", time.Second, "10.0.0.2")
			become(t, d, c, "10.0.0.2:5432=db.example:5432")
			await(t, "changes are told", func() bool { return r.calls("db") >= 2 })
		})
	}
}

func TestOneFamilyFails(t *testing.T) {
	s := dnsServer(t, "10.0.0.1", "fd00::1")
	d, r := start(t, Options{})
	c := config(fast(s.Addr()), resolved("db.example:1"))
	adopt(t, d, c)

	s.SetFailureOf(dns.TypeAAAA, dns.RcodeServerFailure)
	s.SetA("db.example", time.Second, "10.0.0.2", "fd00::2")
	become(t, d, c, "10.0.0.2:1=db.example:1", "[fd00::1]:1=db.example:1")
	if got := sourceOf(t, d); got.StaleSince.IsZero() {
		t.Errorf("with an old family: %+v", got)
	}
	s.SetFailureOf(dns.TypeAAAA, dns.RcodeSuccess)
	become(t, d, c, "10.0.0.2:1=db.example:1", "[fd00::2]:1=db.example:1")

	// One family is empty, the other works.
	s.SetA("db.example", time.Second, "fd00::2")
	become(t, d, c, "[fd00::2]:1=db.example:1")

	// One family is empty, and nobody knows of the other: the last ones stay.
	failAndRecover(t, d, c, r, func() { s.SetFailureOf(dns.TypeAAAA, dns.RcodeServerFailure) }, func() { s.SetFailureOf(dns.TypeAAAA, dns.RcodeSuccess) })
}

// While one family fails, an empty other one does not say that there is none.
func TestEmptyNeedsBothFamilies(t *testing.T) {
	s := dnsServer(t, "10.0.0.1")
	d, r := start(t, Options{})
	c := config(fast(s.Addr()), resolved("db.example:1"))
	adopt(t, d, c)
	failAndRecover(t, d, c, r, func() {
		s.SetFailureOf(dns.TypeAAAA, dns.RcodeServerFailure)
		s.Remove("db.example")
	}, func() {
		s.SetA("db.example", time.Second, "10.0.0.1")
		s.SetFailureOf(dns.TypeAAAA, dns.RcodeSuccess)
	})
	s.Remove("db.example")
	become(t, d, c)
}

// A server that never answers for AAAA makes no source stale.
func TestOneFamilyNeverAnswers(t *testing.T) {
	s := dnsServer(t, "10.0.0.1")
	s.SetFailureOf(dns.TypeAAAA, dns.RcodeServerFailure)
	d, r := start(t, Options{})
	c := config(fast(s.Addr()), resolved("db.example:1"))
	wantServers(t, adopt(t, d, c), "10.0.0.1:1=db.example:1")
	await(t, "it was asked again", func() bool { return sourceOf(t, d).Failures > 2 })
	if got := sourceOf(t, d); !got.StaleSince.IsZero() || got.Answers < 2 || len(r.lines("up to date")) != 0 {
		t.Errorf("%+v, logged %q", got, r.lines("up to date"))
	}
}

func TestOrderIsNoChange(t *testing.T) {
	s := dnsServer(t, "10.0.0.1", "10.0.0.2", "10.0.0.10", "fd00::2", "fd00::1")
	d, r := start(t, Options{})
	c := config(fast(s.Addr()), resolved("db.example:1"))
	want := adopt(t, d, c)
	if len(want) != 5 || want[2] != "10.0.0.10:1=db.example:1" || want[4] != "[fd00::2]:1=db.example:1" {
		t.Errorf("servers are %q", want)
	}
	s.SetA("db.example", time.Second, "fd00::1", "10.0.0.10", "10.0.0.2", "10.0.0.2", "10.0.0.1", "fd00::2")
	asked := s.Questions("db.example", dns.TypeA)
	await(t, "it was asked again", func() bool { return s.Questions("db.example", dns.TypeA) > asked+2 })
	if got := sourceOf(t, d); got.Changes != 1 || r.calls("db") != 0 {
		t.Errorf("another order is a change: %+v", got)
	}
	wantServers(t, expand(t, d, c), want...)
}

func TestManyRecords(t *testing.T) {
	addrs := func(n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprintf("10.0.%d.%d", i/250, i%250+1))
		}
		return out
	}
	t.Run("over TCP", func(t *testing.T) {
		s := dnsServer(t, addrs(40)...)
		s.SetUDPBytes(512)
		d, _ := start(t, Options{})
		c := config(fast(s.Addr()), resolved("db.example:1"))
		if got := adopt(t, d, c); len(got) != 40 || s.QuestionsOverTCP() == 0 {
			t.Errorf("%d servers, %d questions over TCP", len(got), s.QuestionsOverTCP())
		}
	})
	t.Run("over UDP", func(t *testing.T) {
		s := dnsServer(t, addrs(40)...)
		d, _ := start(t, Options{})
		if got := adopt(t, d, config(fast(s.Addr()), resolved("db.example:1"))); len(got) != 40 || s.QuestionsOverTCP() != 0 {
			t.Errorf("%d servers, %d questions over TCP", len(got), s.QuestionsOverTCP())
		}
	})
	t.Run("over the limit", func(t *testing.T) {
		s := dnsServer(t, addrs(1100)...)
		d, r := start(t, Options{})
		c := config(fast(s.Addr()), resolved("db.example:1"))
		if got := adopt(t, d, c); len(got) != 1000 || got[999] != "10.0.3.250:1=db.example:1" {
			t.Errorf("%d servers, the last is %q", len(got), got[len(got)-1])
		}
		await(t, "it was asked again", func() bool { return sourceOf(t, d).Answers > 2 })
		if lines := r.lines("too many"); len(lines) != 1 || !strings.Contains(lines[0], "left_out=100") {
			t.Errorf("logged %q", lines)
		}
	})
}

// closedPort returns an address where nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.LocalAddr().String()
}

func TestNextServer(t *testing.T) {
	for name, spoil := range map[string]func(*dnstest.Server){
		"silent":   func(s *dnstest.Server) { s.SetSilent(true) },
		"SERVFAIL": func(s *dnstest.Server) { s.SetFailure(dns.RcodeServerFailure) },
		"REFUSED":  func(s *dnstest.Server) { s.SetFailure(dns.RcodeRefused) },
		"lame":     func(s *dnstest.Server) { s.SetLame(true) },
	} {
		t.Run(name, func(t *testing.T) {
			bad, s := dnstest.Start(t), dnsServer(t, "10.0.0.1")
			spoil(bad)
			d, _ := start(t, Options{})
			r := fast(bad.Addr(), s.Addr())
			r.Timeout = time.Second
			c := config(r, resolved("db.example:1"))
			wantServers(t, adopt(t, d, c), "10.0.0.1:1=db.example:1")
			await(t, "it was asked again", func() bool { return sourceOf(t, d).Answers > 5 })
			n := bad.Questions("db.example", dns.TypeA)
			if name == "silent" && n > 2 {
				t.Errorf("a server that was silent was asked first again: %d times", n)
			}
			if name != "silent" && n < 5 {
				t.Errorf("a server that is there was asked %d times first", n)
			}
		})
	}
	t.Run("nobody there", func(t *testing.T) {
		s := dnsServer(t, "10.0.0.1")
		d, _ := start(t, Options{})
		c := config(fast(closedPort(t), s.Addr()), resolved("db.example:1"))
		wantServers(t, adopt(t, d, c), "10.0.0.1:1=db.example:1")
	})
}

// A datagram that is lost is sent again before the server is given up.
func TestQuestionIsSentAgain(t *testing.T) {
	s := dnsServer(t, "10.0.0.1")
	s.SetSilent(true)
	d, _ := start(t, Options{})
	r := fast(s.Addr())
	r.Timeout = time.Minute
	c := config(r, resolved("db.example:1"))
	go func() {
		for s.Questions("db.example", dns.TypeA) == 0 || s.Questions("db.example", dns.TypeAAAA) == 0 {
			time.Sleep(time.Millisecond)
		}
		s.SetSilent(false)
	}()
	wantServers(t, adopt(t, d, c), "10.0.0.1:1=db.example:1")
	if got := sourceOf(t, d); got.Failures != 0 {
		t.Errorf("%+v", got)
	}
}

func TestServerWithoutEDNS(t *testing.T) {
	s := dnsServer(t, "10.0.0.1")
	s.SetNoEDNS(true)
	d, _ := start(t, Options{})
	wantServers(t, adopt(t, d, config(fast(s.Addr()), resolved("db.example:1"))), "10.0.0.1:1=db.example:1")
}

func TestAliases(t *testing.T) {
	for name, one := range map[string]bool{"whole chain": false, "one alias an answer": true} {
		t.Run(name, func(t *testing.T) {
			s := dnstest.Start(t)
			s.SetOneAlias(one)
			s.SetCNAME("db.example", time.Minute, "A.example")
			s.SetCNAME("a.example", time.Minute, "b.example")
			s.SetA("b.example", time.Minute, "10.0.0.1", "fd00::1")
			d, r := start(t, Options{})
			c := config(fast(s.Addr()), resolved("db.example:1"))
			wantServers(t, adopt(t, d, c), "10.0.0.1:1=db.example:1", "[fd00::1]:1=db.example:1")
			if asked := s.Questions("b.example", dns.TypeA); asked > 0 != one {
				t.Errorf("asked %d times for the end of the chain", asked)
			}
			failAndRecover(t, d, c, r, func() { s.SetCNAME("b.example", time.Second, "a.example") }, func() { s.SetA("b.example", time.Second, "10.0.0.1", "fd00::1") })
		})
	}
}

func TestSmallestTTL(t *testing.T) {
	s := dnstest.Start(t)
	s.SetCNAME("db.example", 40*time.Second, "a.example")
	s.SetA("a.example", 90*time.Second, "10.0.0.1", "fd00::1")
	for name, c := range map[string]struct {
		valid, want time.Duration
		prepare     func()
	}{
		"of the alias":  {0, 40 * time.Second, func() {}},
		"valid":         {2 * time.Hour, 2 * time.Hour, func() {}},
		"of an address": {0, 30 * time.Second, func() { s.SetA("a.example", 30*time.Second, "10.0.0.1") }},
		"bounded":       {0, 5 * time.Minute, func() { s.SetA("db.example", 24*time.Hour, "10.0.0.1", "fd00::1") }},
		"zero":          {0, time.Second, func() { s.SetA("db.example", 0, "10.0.0.1", "fd00::1") }},
		"one family":    {0, time.Minute, func() { s.SetA("db.example", time.Minute, "10.0.0.1") }},
		"of the SOA":    {0, time.Second, func() { s.SetA("db.example", time.Minute) }},
		"no name":       {0, time.Second, func() { s.Remove("db.example") }},
	} {
		t.Run(name, func(t *testing.T) {
			c.prepare()
			t.Cleanup(func() {
				s.SetCNAME("db.example", 40*time.Second, "a.example")
				s.SetA("a.example", 90*time.Second, "10.0.0.1", "fd00::1")
			})
			r := fast(s.Addr())
			h := host{name: "db.example.", resolver: newResolver(newNetwork(&Options{Hosts: "none", ResolvConf: "none"}), &conf.Resolver{Servers: r.Servers, Valid: c.valid})}
			if a := h.ask(t.Context()); a.again != c.want || a.err != nil {
				t.Errorf("asked again after %v (%v), want %v", a.again, a.err, c.want)
			}
		})
	}
}

func TestHostsFile(t *testing.T) {
	s := dnsServer(t, "10.0.0.1")
	path := filepath.Join(t.TempDir(), "hosts")
	write(t, path, "127.0.0.1\tlocalhost\n::1 localhost ip6-localhost\n10.7.7.7 other Db.Example # not in DNS\n")
	d, _ := start(t, Options{Hosts: path})
	c := config(fast(s.Addr()), resolved("db.example:1"), resolved("localhost.:2"))
	wantServers(t, adopt(t, d, c), "10.7.7.7:1=db.example:1", "127.0.0.1:2=localhost.:2", "[::1]:2=localhost.:2")
	if n := s.Questions("db.example", dns.TypeA); n != 0 {
		t.Errorf("asked %d times for a name in the hosts file", n)
	}
	write(t, path, "127.0.0.1 localhost\n")
	fresh := config(fast(s.Addr()), resolved("DB.example:1"), resolved("localhost:2")) // sources of their own, asked now
	wantServers(t, adopt(t, d, fresh), "10.0.0.1:1=DB.example:1", "127.0.0.1:2=localhost:2")
}

// A source that was answered by the hosts file follows it in a few seconds.
func TestHostsFileIsReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts")
	n := newNetwork(&Options{Hosts: path, ResolvConf: "none"})
	h := host{name: "a", resolver: newResolver(n, &conf.Resolver{Valid: time.Hour})}
	for _, ip := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.1"} { // within a tick of the kernel's clock
		write(t, path, ip+" a\n")
		if a := h.ask(t.Context()); a.again != hostsTTL || len(a.set) != 1 || a.set[0].Address.Host != ip {
			t.Errorf("got %+v, want %s and %v", a, ip, hostsTTL)
		}
	}
}

func TestSearchList(t *testing.T) {
	s := dnstest.StartOn(t, "127.0.0.1:0")
	_, port, _ := net.SplitHostPort(s.Addr())
	s.SetA("db.two.example", time.Second, "10.0.0.2")
	s.SetA("a.b", time.Second, "10.0.0.3")
	s.SetA("a.b.one.example", time.Second, "10.0.0.4")
	path := filepath.Join(t.TempDir(), "resolv.conf")
	write(t, path, "# made by hand\nnameserver 127.0.0.1\nsearch one.example two.example. .\n")
	d, _ := start(t, Options{ResolvConf: path, port: port})
	system := conf.Resolver{Timeout: 5 * time.Second, Valid: 20 * time.Millisecond}

	c := config(system, resolved("db:1"))
	wantServers(t, adopt(t, d, c), "10.0.0.2:1=db:1")
	wantServers(t, adopt(t, d, config(system, resolved("db.:1"))))
	wantServers(t, adopt(t, d, config(system, resolved("a.b:1"))), "10.0.0.3:1=a.b:1")

	write(t, path, "nameserver 127.0.0.1\nsearch one.example two.example\noptions ndots:2\n")
	more := config(system, resolved("A.b:1"))
	wantServers(t, adopt(t, d, more), "10.0.0.4:1=A.b:1")

	// The servers are read again too.
	other := dnstest.StartOn(t, "127.0.0.2:"+port)
	other.SetA("a.b.one.example", time.Second, "10.0.0.5")
	write(t, path, "nameserver 127.0.0.2\nsearch one.example\noptions ndots:2\n")
	become(t, d, more, "10.0.0.5:1=A.b:1")
}

// One name of a search list that can't be asked for does not give its place to
// another, but it does not hide another either.
func TestSearchListWithFailure(t *testing.T) {
	s := dnstest.Start(t)
	_, port, _ := net.SplitHostPort(s.Addr())
	path := filepath.Join(t.TempDir(), "resolv.conf")
	write(t, path, "nameserver 127.0.0.1\nsearch one.example two.example\n")
	n := newNetwork(&Options{Hosts: "none", ResolvConf: path, port: port})
	h := host{name: "db", resolver: newResolver(n, &conf.Resolver{Timeout: 5 * time.Second})}
	ask := func(want ...string) {
		t.Helper()
		a := h.ask(t.Context())
		var got []string
		for _, s := range a.set {
			got = append(got, s.Address.Host)
		}
		if want == nil && a.learned || !slices.Equal(got, want) {
			t.Errorf("learned %v: %q (%v), want %q", a.learned, got, a.err, want)
		}
	}
	// An alias in a circle fails, and nothing else does.
	s.SetCNAME("db.one.example", time.Second, "db.one.example")
	s.SetA("db.two.example", time.Second, "10.0.0.2")
	ask("10.0.0.2")
	s.Remove("db.two.example")
	ask() // nobody knows of the first
	s.SetA("db.one.example", time.Second, "10.0.0.1")
	s.SetA("db.two.example", time.Second, "10.0.0.2")
	ask("10.0.0.1")
	s.SetCNAME("db.one.example", time.Second, "db.one.example")
	ask() // the first was meant
	s.Remove("db.one.example")
	ask("10.0.0.2")
}

func TestWithoutResolvConf(t *testing.T) {
	s := parseSystem(nil, "53")
	if want := []string{"127.0.0.1:53", "[::1]:53"}; !slices.Equal(s.servers, want) || s.ndots != 1 {
		t.Errorf("got %+v", s)
	}
	s = parseSystem([]byte("nameserver 1\nnameserver fe80::1%lo\nnameserver ::1\nnameserver 10.0.0.1\nnameserver 10.0.0.2"), "53")
	if want := []string{"[fe80::1%lo]:53", "[::1]:53", "10.0.0.1:53"}; !slices.Equal(s.servers, want) {
		t.Errorf("got %+v", s)
	}
}

// Names and addresses that need no following pass as they are.
func TestStaticServers(t *testing.T) {
	d, _ := start(t, Options{})
	socket := conf.NewServer(conf.Address{Path: "/run/db.sock"})
	c := config(fast(closedPort(t)), server("10.0.0.1:1"), server("name.example:2"), resolved("[fd00::1]:3"), socket)
	got := adopt(t, d, c)
	wantServers(t, got, "10.0.0.1:1", "name.example:2", "[fd00::1]:3", "unix:/run/db.sock")
	if len(d.Sources()) != 0 {
		t.Errorf("sources are %+v", d.Sources())
	}
}

// Stop does not wait for servers that don't answer.
func TestStopWhileServerIsSilent(t *testing.T) {
	s := dnsServer(t)
	s.SetSilent(true)
	d, _ := start(t, Options{})
	r := fast(s.Addr())
	r.Timeout = time.Hour
	d.Follow(config(r, resolved("db.example:1"), serviceAt("_pg._tcp.example")))
	await(t, "questions are under way", func() bool {
		return s.Questions("db.example", dns.TypeA) > 0 && s.Questions("_pg._tcp.example", dns.TypeSRV) > 0
	})
	stopped := make(chan struct{})
	go func() { d.Stop(); close(stopped) }()
	select {
	case <-stopped:
	case <-time.After(patience):
		t.Error("Stop waits for a server")
	}
}

func TestParseHosts(t *testing.T) {
	h := parseHosts([]byte("127.0.0.1 localhost LOOP\n# 10.0.0.9 x\n\n10.0.0.1\n not-an-ip y\n::1 localhost\nfe80::1%lo z."))
	for name, want := range map[string]string{
		"localhost": "[127.0.0.1 ::1]", "loop.": "[127.0.0.1]", "x": "[]", "y": "[]", "Z": "[fe80::1%lo]",
	} {
		if got := fmt.Sprint(h.of(name)); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

func FuzzHosts(f *testing.F) {
	f.Add([]byte("127.0.0.1 localhost\n::1\tlocalhost ip6-localhost # x\n"))
	f.Add([]byte("10.0.0.1 A. a\r\nfe80::1%eth0 b"))
	f.Fuzz(func(t *testing.T, data []byte) {
		lines := strings.Split(string(data), "\n")
		for name, addrs := range parseHosts(data) {
			for _, ip := range addrs {
				if !ip.IsValid() {
					t.Fatalf("%q has an address that is none", name)
				}
				// The slow way round: a line must hold both.
				if !slices.ContainsFunc(lines, func(line string) bool {
					f := strings.Fields(strings.SplitN(line, "#", 2)[0])
					if len(f) < 2 {
						return false
					}
					at, err := netip.ParseAddr(f[0])
					return err == nil && at == ip && slices.ContainsFunc(f[1:], func(n string) bool { return hostKey(n) == name })
				}) {
					t.Fatalf("no line says that %q is %v", name, ip)
				}
			}
			if !slices.Equal(parseHosts(data).of(name+"."), addrs) {
				t.Fatalf("%q is found only without a dot", name)
			}
		}
	})
}
