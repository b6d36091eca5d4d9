package main

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/stats"
)

// The demo's UDP case: servers that answer DNS, clients that ask, and what the
// page says of them.

const (
	dnsName    = "dns" // of the upstream and the listener
	dnsClients = 4     // one query each at a time, every shortEvery
	dnsWaits   = time.Second
)

// newDNSListener asks for one answer to each query.
func newDNSListener() conf.Listener {
	l := conf.NewListener(dnsName)
	l.Protocol = conf.UDP
	l.Upstream = dnsName
	l.UDP.Responses = 1
	l.UDP.IdleTimeout = dnsWaits
	return l
}

// listenDNS answers queries on the UDP port of the same number from now on.
func (s *demoServer) listenDNS() error {
	c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(s.addr()))
	if err != nil {
		return err
	}
	s.dns = c
	s.accepting.Go(func() { s.answerDNS(c) })
	return nil
}

// answerDNS answers until c is closed.
func (s *demoServer) answerDNS(c *net.UDPConn) {
	query := make([]byte, 2048)
	for {
		n, client, err := c.ReadFromUDPAddrPort(query)
		if err != nil {
			return
		}
		_, _ = c.WriteToUDPAddrPort(s.answerTo(query[:n]), client)
	}
}

// answerTo says in a TXT record of any name who answers. The A record of any
// name is 127.0.0.1. What is no query gets a line, as over TCP.
func (s *demoServer) answerTo(query []byte) []byte {
	var p dnsmessage.Parser
	h, err := p.Start(query)
	if err != nil {
		return fmt.Appendf(nil, "%s: %s", s.name, query)
	}
	q, err := p.Question()
	if err != nil {
		return fmt.Appendf(nil, "%s: %s", s.name, query)
	}
	m := dnsmessage.Message{
		// Without RecursionAvailable dig warns of its absence.
		Header:    dnsmessage.Header{ID: h.ID, Response: true, Authoritative: true, RecursionDesired: h.RecursionDesired, RecursionAvailable: true},
		Questions: []dnsmessage.Question{q},
	}
	r := dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class}}
	switch q.Type {
	case dnsmessage.TypeTXT:
		r.Body = &dnsmessage.TXTResource{TXT: []string{"hello from " + s.name}}
	case dnsmessage.TypeA:
		r.Body = &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}
	}
	if r.Body != nil {
		m.Answers = []dnsmessage.Resource{r}
	}
	answer, _ := m.Pack() // can't fail: the name has been parsed
	return answer
}

// askDNS asks for the TXT record of "demo".
func askDNS(_ context.Context, c net.Conn, _ *bufio.Reader) error {
	q := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: uint16(rand.N(1 << 16))},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName("demo."), Type: dnsmessage.TypeTXT, Class: dnsmessage.ClassINET}},
	}
	query, err := q.Pack()
	if err != nil {
		return err
	}
	_ = c.SetDeadline(time.Now().Add(dnsWaits))
	if _, err := c.Write(query); err != nil {
		return err
	}
	answer := make([]byte, 512)
	n, err := c.Read(answer)
	if err != nil {
		return err
	}
	var a dnsmessage.Message
	if err := a.Unpack(answer[:n]); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if a.ID != q.ID || len(a.Answers) != 1 {
		return fmt.Errorf("read answer: got %s to %s", a.GoString(), q.GoString())
	}
	return nil
}

// noteQuery counts a query. One without an answer is laid to the server that
// went away if that was away while the query was in flight: over UDP weir has
// nothing but a client's query to find out with that a server is away, or still
// is. How many it has lost so is its count of peer_refused, on the page too.
func (t *demoTraffic) noteQuery(start time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	away := t.taken.Before(start.Add(dnsWaits)) && (t.back.Before(t.taken) || start.Before(t.back))
	t.queries.count(err, away)
}

// observeDNS tells what changed in weir's account of the DNS peers.
func (d *demo) observeDNS() {
	before := d.dnsPeers
	d.dnsPeers = d.balance.Peers(dnsName)
	for i, p := range d.dnsPeers {
		switch was, is := before[i].Balance.Fails, p.Balance.Fails; {
		case was == 0 && is > 0:
			d.event("dns: a query to %s was lost; the next ones go to other peers", p.Name)
		case was > 0 && is == 0:
			d.event("dns: %s has answered the query that tried it; it gets its share again", p.Name)
		}
	}
}

// dnsTotals sums up in two lines.
func (d *demo) dnsTotals() []string {
	now := 0
	picked := make([]string, len(d.dnsPeers))
	for i, p := range d.dnsPeers {
		now += p.Balance.Conns
		picked[i] = fmt.Sprintf("%s %d", p.Name, p.Sessions)
	}
	closed := d.closed()
	_, seen := d.traffic.sums()
	failed := fmt.Sprintf("%d failed", seen.failed)
	if seen.err != nil {
		failed += ": " + seen.err.Error()
	}
	return []string{
		fmt.Sprintf("dns       %.0f answers/s, %d now; picked %s",
			d.rate(func(s *demoSample) uint64 { return s.answers }), now, strings.Join(picked, ", ")),
		fmt.Sprintf("queries   %d answered, %d lost with %s (%v %d), %s",
			seen.answered, seen.cut, d.servers[demoVictim].name, stats.PeerRefused, closed[stats.PeerRefused], failed),
	}
}

// dnsSummary is for the end.
func (d *demo) dnsSummary() string {
	_, seen := d.traffic.sums()
	failed := "no other was lost"
	if seen.failed > 0 {
		failed = fmt.Sprintf("%d failed otherwise, the last one so: %v", seen.failed, seen.err)
	}
	return fmt.Sprintf("%d DNS queries answered, %d unanswered (in flight to %s as it went away, or sent to try it); %s.",
		seen.answered, seen.cut, d.servers[demoVictim].name, failed)
}
