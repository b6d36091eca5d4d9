package balance

func init() {
	register("least_conn", registration{make: func(_ Options, peers []*Peer) (Method, error) { return leastConn(peers), nil }})
}

// leastConn gives a session to the peer with the fewest connections for its
// weight (ngx_stream_upstream_get_least_conn_peer).
type leastConn []*Peer

func (m leastConn) Pick(s *Selection, now Millis) int {
	s.decidedBy("connections per weight")
	return least(m, s, now, (*Peer).conns, false)
}

func (m leastConn) cold() cold { return coldByLoad }

// conns returns the sessions that count when peers are compared.
func (p *Peer) conns() int64 { return int64(p.Conns + p.Virtual) }
