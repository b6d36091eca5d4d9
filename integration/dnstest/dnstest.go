package dnstest

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// negativeTTL is that of the SOA record in empty answers.
const negativeTTL = 1

// Server is a DNS server.
type Server struct {
	addr string

	mu         sync.Mutex                     // guards everything below
	records    map[string]map[uint16][]dns.RR // by name and type; a name without types is empty
	asked      map[question]int
	overTCP    int
	failure    map[uint16]int // response code by type of question; 0 = any type
	silent     bool
	malformed  func(answer []byte) []byte // nil = as it should be
	udpBytes   int                        // 0 = as many as the client takes
	additional []uint16                   // types of addresses
	oneAlias   bool
	lame       bool
	noEDNS     bool
}

type question struct {
	name  string
	qtype uint16
}

// SRV is a target of a service.
type SRV struct {
	Priority, Weight, Port uint16
	Target                 string // a name; "." = there is no such service
}

// Start returns a server that knows no name yet and lasts until the test ends.
func Start(tb testing.TB) *Server { return StartOn(tb, "127.0.0.1:0") }

// StartOn is Start with an address; port 0 is one that is free.
func StartOn(tb testing.TB, addr string) *Server {
	tb.Helper()
	// A port that is free for one protocol may be taken for the other.
	var tcp net.Listener
	var udp net.PacketConn
	var err error
	for range 20 {
		if tcp, err = net.Listen("tcp", addr); err != nil {
			continue
		}
		if udp, err = net.ListenPacket("udp", tcp.Addr().String()); err == nil {
			break
		}
		tcp.Close()
	}
	if err != nil {
		tb.Fatalf("start DNS server: %v", err)
	}
	s := &Server{
		addr:       udp.LocalAddr().String(),
		records:    map[string]map[uint16][]dns.RR{},
		asked:      map[question]int{},
		failure:    map[uint16]int{},
		additional: []uint16{dns.TypeA, dns.TypeAAAA},
	}
	var running sync.WaitGroup
	tb.Cleanup(running.Wait) // after what ends them
	for _, server := range []*dns.Server{{PacketConn: udp, Handler: s}, {Listener: tcp, Handler: s}} {
		started := make(chan struct{})
		server.NotifyStartedFunc = func() { close(started) }
		running.Go(func() { _ = server.ActivateAndServe() }) // it ends with an error when it is shut down
		<-started
		tb.Cleanup(func() { _ = server.Shutdown() })
	}
	return s
}

// Addr returns the server's "host:port", the same for UDP and TCP.
func (s *Server) Addr() string { return s.addr }

// SetA sets all the addresses of a name, A and AAAA. None leave it empty.
func (s *Server) SetA(name string, ttl time.Duration, addrs ...string) {
	records := map[uint16][]dns.RR{}
	for _, text := range addrs {
		ip := netip.MustParseAddr(text)
		if ip.Is4() {
			records[dns.TypeA] = append(records[dns.TypeA], &dns.A{Hdr: header(name, dns.TypeA, ttl), A: ip.AsSlice()})
		} else {
			records[dns.TypeAAAA] = append(records[dns.TypeAAAA], &dns.AAAA{Hdr: header(name, dns.TypeAAAA, ttl), AAAA: ip.AsSlice()})
		}
	}
	s.set(name, records)
}

// SetSRV sets all the targets of a service.
func (s *Server) SetSRV(name string, ttl time.Duration, targets ...SRV) {
	var list []dns.RR
	for _, t := range targets {
		list = append(list, &dns.SRV{Hdr: header(name, dns.TypeSRV, ttl), Priority: t.Priority, Weight: t.Weight, Port: t.Port, Target: dns.Fqdn(t.Target)})
	}
	s.set(name, map[uint16][]dns.RR{dns.TypeSRV: list})
}

// SetCNAME makes a name an alias.
func (s *Server) SetCNAME(name string, ttl time.Duration, target string) {
	s.set(name, map[uint16][]dns.RR{dns.TypeCNAME: {&dns.CNAME{Hdr: header(name, dns.TypeCNAME, ttl), Target: dns.Fqdn(target)}}})
}

// Remove makes a name one that does not exist.
func (s *Server) Remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.records, dns.CanonicalName(name))
}

// SetFailure has every question answered with that response code, such as
// dns.RcodeServerFailure; dns.RcodeSuccess ends it.
func (s *Server) SetFailure(rcode int) { s.SetFailureOf(0, rcode) }

// SetFailureOf is SetFailure for one type of question, such as dns.TypeAAAA.
func (s *Server) SetFailureOf(qtype uint16, rcode int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure[qtype] = rcode
}

// SetSilent says whether questions are left without an answer.
func (s *Server) SetSilent(silent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent = silent
}

// SetMalformed has the bytes of every answer changed before they are sent; nil
// ends it.
func (s *Server) SetMalformed(change func(answer []byte) []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.malformed = change
}

// SetUDPBytes bounds what is sent over UDP, whatever the client takes: longer
// answers are cut, and say so. At least 512; 0 = no bound.
func (s *Server) SetUDPBytes(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.udpBytes = n
}

// SetAdditional says which types of their addresses answers with targets also
// hold: dns.TypeA and dns.TypeAAAA at first.
func (s *Server) SetAdditional(types ...uint16) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.additional = types
}

// SetOneAlias has answers with an alias hold nothing else: where it leads is left
// to the client.
func (s *Server) SetOneAlias(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.oneAlias = on
}

// SetLame has it behave as a server that has not got the zone and asks nobody:
// its answers are empty, and without a mark that they count.
func (s *Server) SetLame(lame bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lame = lame
}

// SetNoEDNS has it behave as a server from before EDNS, which takes a question
// with it for a mistake.
func (s *Server) SetNoEDNS(old bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noEDNS = old
}

// Questions returns how many questions of a type have come for a name, over UDP
// and TCP, those without an answer too.
func (s *Server) Questions(name string, qtype uint16) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[question{dns.CanonicalName(name), qtype}]
}

// QuestionsOverTCP returns how many questions have come over TCP.
func (s *Server) QuestionsOverTCP() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.overTCP
}

func header(name string, rtype uint16, ttl time.Duration) dns.RR_Header {
	return dns.RR_Header{Name: dns.CanonicalName(name), Rrtype: rtype, Class: dns.ClassINET, Ttl: uint32(ttl / time.Second)}
}

func (s *Server) set(name string, records map[uint16][]dns.RR) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records[dns.CanonicalName(name)] = records
}

// ServeDNS answers one question.
func (s *Server) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	udp := w.LocalAddr().Network() == "udp"
	if data := s.answer(q, udp); data != nil {
		_, _ = w.Write(data) // the client may have gone
	}
}

// answer returns the bytes to send, or nil.
func (s *Server) answer(q *dns.Msg, udp bool) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	name, qtype := dns.CanonicalName(q.Question[0].Name), q.Question[0].Qtype
	s.asked[question{name, qtype}]++
	if !udp {
		s.overTCP++
	}
	if s.silent {
		return nil
	}
	in := new(dns.Msg).SetReply(q)
	s.fill(in, name, qtype)
	if opt := q.IsEdns0(); opt != nil && s.noEDNS {
		in = new(dns.Msg).SetRcode(q, dns.RcodeFormatError)
	} else if opt != nil {
		in.SetEdns0(dns.DefaultMsgSize, false)
	}
	if udp {
		in.Truncate(s.roomFor(q))
	}
	data, err := in.Pack()
	if err != nil {
		panic(err) // a test has set what no message can hold
	}
	if s.malformed != nil {
		return s.malformed(data)
	}
	return data
}

func (s *Server) roomFor(q *dns.Msg) int {
	room := dns.MinMsgSize
	if opt := q.IsEdns0(); opt != nil {
		room = int(opt.UDPSize())
	}
	if s.udpBytes > 0 {
		room = min(room, s.udpBytes)
	}
	return room
}

// fill puts the records into an answer, and follows aliases.
func (s *Server) fill(in *dns.Msg, name string, qtype uint16) {
	for _, t := range []uint16{0, qtype} {
		if code := s.failure[t]; code != dns.RcodeSuccess {
			in.Rcode = code
			return
		}
	}
	if s.lame {
		return
	}
	in.Authoritative, in.RecursionAvailable = true, true
	for range 8 {
		records, exists := s.records[name]
		if !exists {
			in.Rcode = dns.RcodeNameError
			break
		}
		if list := records[qtype]; len(list) > 0 {
			in.Answer = append(in.Answer, list...)
			s.fillAdditional(in, list)
			return
		}
		alias := records[dns.TypeCNAME]
		if alias == nil {
			break
		}
		in.Answer = append(in.Answer, alias...)
		if s.oneAlias {
			return
		}
		name = dns.CanonicalName(alias[0].(*dns.CNAME).Target)
	}
	in.Ns = []dns.RR{&dns.SOA{Hdr: header(".", dns.TypeSOA, negativeTTL*time.Second), Ns: "ns.", Mbox: "admin.", Serial: 1, Refresh: 1, Retry: 1, Expire: 1, Minttl: negativeTTL}}
}

func (s *Server) fillAdditional(in *dns.Msg, list []dns.RR) {
	var targets []string
	for _, rr := range list {
		if srv, ok := rr.(*dns.SRV); ok && !slices.Contains(targets, srv.Target) {
			targets = append(targets, srv.Target)
			for _, qtype := range s.additional {
				in.Extra = append(in.Extra, s.records[strings.ToLower(srv.Target)][qtype]...)
			}
		}
	}
}
