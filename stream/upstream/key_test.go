package upstream

import (
	"net/netip"
	"os"
	"strconv"
	"testing"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/internal/clock"
)

// newKeyedGroup returns a group of three peers whose method hashes that key.
func newKeyedGroup(tb testing.TB, edit func(*conf.Balance)) *Group {
	tb.Helper()
	u := conf.NewUpstream("orders")
	u.Balance = conf.DefaultBalance(conf.Hash)
	edit(&u.Balance)
	var peers []*Peer
	for i := range 3 {
		s := conf.NewServer(conf.Address{Host: "127.0.0.1", Port: uint16(i + 1)})
		peers = append(peers, newPeer(&s, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), s.Address.Port), 1))
	}
	g, err := NewGroup(&u, peers, 1, 1)
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

func TestKeys(t *testing.T) {
	v4 := &Facts{Client: netip.MustParseAddrPort("10.1.2.3:4000"), Server: netip.MustParseAddrPort("10.0.0.1:5432"), Listener: "pg", Connection: 7}
	v6 := &Facts{Client: netip.MustParseAddrPort("[2001:db8::1]:4000"), Server: netip.MustParseAddrPort("[::1]:5432")}
	unix := &Facts{}
	hostname, _ := os.Hostname()
	v := func(name conf.Variable) conf.Part { return conf.Part{Variable: name} }
	for _, c := range []struct {
		key  conf.Template
		f    *Facts
		want string
	}{
		{conf.Template{v(conf.VarRemoteAddr)}, v4, "10.1.2.3"},
		{conf.Template{v(conf.VarRemoteAddr)}, v6, "2001:db8::1"},
		{conf.Template{v(conf.VarRemoteAddr)}, unix, "unix:"},
		{conf.Template{v(conf.VarRemotePort)}, v4, "4000"},
		{conf.Template{v(conf.VarRemotePort)}, unix, ""},
		{conf.Template{v(conf.VarBinaryRemoteAddr)}, v4, "\x0a\x01\x02\x03"},
		{conf.Template{v(conf.VarBinaryRemoteAddr)}, v6, "\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01"},
		{conf.Template{v(conf.VarBinaryRemoteAddr)}, unix, "unix:"},
		{conf.Template{{Text: "<"}, v(conf.VarServerAddr), {Text: "|"}, v(conf.VarServerPort), {Text: ">"}}, v4, "<10.0.0.1|5432>"},
		{conf.Template{v(conf.VarServerAddr)}, unix, "unix:"},
		{conf.Template{v(conf.VarProtocol), {Text: " "}, v(conf.VarListener), {Text: " "}, v(conf.VarUpstream), {Text: " "}, v(conf.VarConnection)}, v4, "tcp pg orders 7"},
		{conf.Template{v(conf.VarHostname), {Text: ":"}, v(conf.VarPid)}, v4, hostname + ":" + strconv.Itoa(os.Getpid())},
	} {
		g := newKeyedGroup(t, func(b *conf.Balance) { b.Key = c.key })
		if got := string(g.AppendKey(nil, c.f)); got != c.want {
			t.Errorf("%s is %q, want %q", c.key, got, c.want)
		}
	}
	ip := newKeyedGroup(t, func(b *conf.Balance) { b.Method = conf.IPHash })
	for f, want := range map[*Facts]string{v4: "\x0a\x01\x02\x03", unix: ""} {
		if got := string(ip.AppendKey(nil, f)); got != want {
			t.Errorf("the key of ip_hash is %q, want %q", got, want)
		}
	}
}

// Every variable that a configuration may put into a key has a value.
func TestEveryKeyVariable(t *testing.T) {
	f := &Facts{Client: netip.MustParseAddrPort("10.1.2.3:4000"), Server: netip.MustParseAddrPort("10.0.0.1:5432"), Listener: "pg", Connection: 7}
	for _, name := range conf.KeyVariables() {
		g := newKeyedGroup(t, func(b *conf.Balance) { b.Key = conf.Template{{Variable: name}} })
		if got := g.AppendKey(nil, f); len(got) == 0 {
			t.Errorf("%s is empty", name)
		}
	}
}

// A key costs no allocation per session, and the same one goes to the same
// peer.
func TestKeyedPick(t *testing.T) {
	g := newKeyedGroup(t, func(b *conf.Balance) {
		b.Consistent = true
		b.Key = conf.Template{{Variable: conf.VarRemoteAddr}, {Text: ":"}, {Variable: conf.VarServerPort}, {Text: "-"}, {Variable: conf.VarConnection}}
	})
	f := &Facts{Client: netip.MustParseAddrPort("10.1.2.3:4000"), Server: netip.MustParseAddrPort("10.0.0.1:5432"), Connection: 1 << 60}
	var a Attempts
	now := clock.Now()
	pick := func() *Peer {
		g.Begin(&a, Limits{}, now)
		a.Key = g.AppendKey(a.Key, f)
		p := g.Pick(&a, now)
		g.Release(p, Succeeded, Took{}, now)
		return p
	}
	first := pick()
	if n := testing.AllocsPerRun(100, func() {
		if p := pick(); p != first {
			t.Fatalf("the key went to %s and then to %s", first, p)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
