package discovery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/weirlb/weir/conf"
)

const (
	minTTL   = time.Second     // for answers that may not be kept at all
	maxTTL   = 5 * time.Minute // so that a change is seen in bearable time whatever the TTL says
	emptyTTL = 30 * time.Second
	bareTTL  = 5 * time.Second // of an empty answer that says nothing of its time (no SOA)

	udpBytes     = 1232             // of an answer over UDP: what passes every path unfragmented (DNS flag day 2020)
	resendAfter  = time.Second      // a datagram may be lost
	silence      = 30 * time.Second // how long a server that did not answer is asked last
	maxQuestions = 64               // under way at once, over all names
	maxAliases   = 16               // in a chain
	responseBit  = 1 << 15          // QR of a message's header
)

// errForeign is an answer to another question: an old one, or a forged one.
var errForeign = errors.New("the answer is to another question")

// resolver asks the servers of one resolver block.
type resolver struct {
	network *network
	servers []string // host:port; nil = the system's
	timeout time.Duration
	valid   time.Duration // 0 = as long as the answers say
}

func newResolver(n *network, c *conf.Resolver) *resolver {
	def := conf.DefaultResolver()
	if c == nil {
		c = &def
	}
	r := &resolver{network: n, timeout: c.Timeout, valid: c.Valid}
	if r.timeout <= 0 {
		r.timeout = def.Timeout
	}
	for _, a := range c.Servers {
		r.servers = append(r.servers, a.String())
	}
	return r
}

// again returns after which time to ask again for records with that TTL.
func (r *resolver) again(ttl time.Duration) time.Duration {
	if r.valid > 0 {
		return r.valid
	}
	return min(max(ttl, minTTL), maxTTL)
}

// records are an answer. No records mean that the server knows there are none.
type records struct {
	list  []dns.RR // of the type asked for
	extra []dns.RR // the additional section
	ttl   time.Duration
}

// lookup asks for the records of one type at a fully qualified name, and follows
// aliases. An error says that nobody knows.
func (r *resolver) lookup(ctx context.Context, name string, qtype uint16) (records, error) {
	ttl := maxTTL
	for range maxAliases {
		in, err := r.ask(ctx, name, qtype)
		if err != nil {
			return records{}, err
		}
		list, end, chainTTL, err := follow(in.Answer, name, qtype)
		if err != nil {
			return records{}, err
		}
		ttl = min(ttl, chainTTL)
		if len(list) > 0 {
			return records{list: list, extra: in.Extra, ttl: ttl}, nil
		}
		// The server may leave the end of a chain to us. If it says NXDOMAIN, or
		// has an SOA (RFC 2308, 2.2), it has looked itself.
		negative, said := negativeTTL(in)
		if strings.EqualFold(end, name) || in.Rcode == dns.RcodeNameError || said {
			return records{ttl: min(ttl, negative)}, nil
		}
		name = end
	}
	return records{}, fmt.Errorf("%s: more than %d aliases in a row", name, maxAliases)
}

// follow returns the records of a type at the end of the chain of aliases that
// starts at name, that end, and the smallest TTL of it all.
func follow(answer []dns.RR, name string, qtype uint16) (list []dns.RR, end string, ttl time.Duration, err error) {
	ttl = maxTTL
	end = name
	for range maxAliases {
		var alias *dns.CNAME
		for _, rr := range answer {
			h := rr.Header()
			if h.Class != dns.ClassINET || !strings.EqualFold(h.Name, end) {
				continue
			}
			switch {
			case h.Rrtype == qtype:
				list = append(list, rr)
			case h.Rrtype == dns.TypeCNAME:
				alias = rr.(*dns.CNAME)
			default:
				continue // a signature, say
			}
			ttl = min(ttl, seconds(h.Ttl))
		}
		if len(list) > 0 || alias == nil {
			return list, end, ttl, nil
		}
		end = alias.Target
	}
	return nil, end, ttl, fmt.Errorf("%s: its aliases go in a circle, or are more than %d", name, maxAliases)
}

// negativeTTL returns how long an empty answer holds (RFC 2308, 5), and whether
// the answer says so. It is never long: an empty set is an outage, and asking for
// what the resolver remembers costs little.
func negativeTTL(in *dns.Msg) (ttl time.Duration, said bool) {
	for _, rr := range in.Ns {
		if soa, ok := rr.(*dns.SOA); ok {
			return min(seconds(soa.Hdr.Ttl), seconds(soa.Minttl), emptyTTL), true
		}
	}
	return bareTTL, false
}

func seconds(ttl uint32) time.Duration { return time.Duration(ttl) * time.Second }

// ask puts a question to one server after another until one knows.
func (r *resolver) ask(ctx context.Context, name string, qtype uint16) (*dns.Msg, error) {
	servers := r.servers
	if servers == nil {
		servers = r.network.system.get().servers
	}
	var failures []string
	for _, server := range r.network.ordered(servers) {
		in, err := r.askServer(ctx, server, name, qtype)
		if err == nil {
			return in, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		failures = append(failures, fmt.Sprintf("%s: %v", server, err))
	}
	return nil, fmt.Errorf("ask for %s of %s: %s", dns.TypeToString[qtype], name, strings.Join(failures, "; "))
}

// askServer puts a question to one server. An error says that it does not know.
func (r *resolver) askServer(ctx context.Context, server, name string, qtype uint16) (*dns.Msg, error) {
	select {
	case r.network.slots <- struct{}{}:
		defer func() { <-r.network.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	q := new(dns.Msg).SetQuestion(name, qtype).SetEdns0(udpBytes, false)
	in, err := r.exchange(ctx, "udp", server, q)
	if err == nil && (in.Rcode == dns.RcodeFormatError || in.Rcode == dns.RcodeNotImplemented) {
		q.Extra = nil // a server that does not know EDNS (RFC 6891, 7)
		in, err = r.exchange(ctx, "udp", server, q)
	}
	if err == nil && in.Truncated {
		in, err = r.exchange(ctx, "tcp", server, q)
	}
	if err != nil {
		return nil, err
	}
	switch {
	case in.Truncated:
		return nil, errors.New("the answer is cut off")
	case in.Rcode == dns.RcodeNameError:
		return in, nil
	case in.Rcode != dns.RcodeSuccess:
		if text, ok := dns.RcodeToString[in.Rcode]; ok {
			return nil, errors.New(text)
		}
		return nil, fmt.Errorf("response code %d", in.Rcode)
	case len(in.Answer) == 0 && !in.Authoritative && !in.RecursionAvailable:
		// It points to other servers, and would not ask them. An empty answer
		// of this kind says nothing about the name.
		return nil, errors.New("it neither has the zone nor asks others")
	}
	return in, nil
}

// exchange sends a question and waits for its answer.
func (r *resolver) exchange(ctx context.Context, network, server string, q *dns.Msg) (*dns.Msg, error) {
	outer := ctx
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	in, err := converse(ctx, network, server, q, min(resendAfter, r.timeout/2))
	silent := isNetError(err)
	switch {
	case outer.Err() != nil:
		return nil, outer.Err()
	case ctx.Err() != nil && err != nil:
		err, silent = fmt.Errorf("no answer within %s", conf.FormatDuration(r.timeout)), true
	}
	r.network.heard(server, !silent)
	return in, err
}

// isNetError reports whether the network failed, and not the answer.
func isNetError(err error) bool {
	var e net.Error
	return errors.As(err, &e)
}

// converse exchanges two messages over a connection of its own, which gives each
// question a port that nobody can guess.
func converse(ctx context.Context, network, server string, q *dns.Msg, resend time.Duration) (*dns.Msg, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, server)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })() // ends what blocks
	c := &dns.Conn{Conn: conn, UDPSize: udpBytes}
	if err := c.WriteMsg(q); err != nil {
		return nil, err
	}
	if network == "udp" {
		if err := conn.SetReadDeadline(time.Now().Add(resend)); err != nil {
			return nil, err
		}
	}
	for {
		in, err := receive(c, q)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			if err = conn.SetReadDeadline(time.Time{}); err == nil {
				err = c.WriteMsg(q) // the same, so that a late answer to the first counts
			}
			if err != nil {
				return nil, err
			}
		case errors.Is(err, errForeign) && network == "udp":
			// The true answer may still come.
		default:
			return in, err
		}
	}
}

// receive reads one message and checks that it answers the question.
func receive(c *dns.Conn, q *dns.Msg) (*dns.Msg, error) {
	var h dns.Header
	data, err := c.ReadMsgHeader(&h)
	if isNetError(err) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("malformed answer: %w", err)
	}
	if h.Id != q.Id || h.Bits&responseBit == 0 {
		return nil, errForeign
	}
	in := new(dns.Msg)
	err = in.Unpack(data)
	bare := len(in.Question) == 0 && in.Rcode != dns.RcodeSuccess // some refuse with a header alone
	switch {
	case in.Truncated:
		return in, nil // what has come does not matter
	case err == nil && !bare && !sameQuestion(in.Question, q.Question):
		return nil, errForeign
	case err != nil:
		return nil, fmt.Errorf("malformed answer: %w", err)
	case !bare && len(in.Answer) != int(h.Ancount):
		// Unpack takes a message that ends early. A short set must not pass for
		// a whole one.
		return nil, fmt.Errorf("malformed answer: %d records of %d", len(in.Answer), h.Ancount)
	}
	return in, nil
}

func sameQuestion(a, b []dns.Question) bool {
	return len(a) == 1 && len(b) == 1 && a[0].Qtype == b[0].Qtype && a[0].Qclass == b[0].Qclass && strings.EqualFold(a[0].Name, b[0].Name)
}
