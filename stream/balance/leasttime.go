package balance

func init() {
	register("least_time", registration{make: func(o Options, peers []*Peer) (Method, error) {
		return &leastTime{timing{o.Time, o.Inflight}, peers}, nil
	}})
}

// leastTime gives a session to the peer with the smallest product of its
// average time and its connections, for its weight
// (ngx_stream_upstream_get_least_time_peer).
type leastTime struct {
	timing
	peers []*Peer
}

func (m *leastTime) Pick(s *Selection, now Millis) int {
	s.decidedBy("time and connections per weight")
	if m.inflight {
		for _, p := range s.eligible(m.peers, 0, now.Seconds()) {
			p.Inflight.fold(now)
		}
	}
	return least(m.peers, s, now, func(p *Peer) int64 { return m.load(p, now) }, true)
}

// timing measures peers for leastTime and for random's choice of two. It is a
// Tracker but for Pick.
type timing struct {
	mode     Moment
	inflight bool
}

const (
	// cluster is the grain of times: what differs by less is equal, so that
	// noise does not decide.
	cluster Millis = 20
	// slowest is the longest time that counts.
	slowest Millis = 5000
)

// load is what a peer's next session would weigh
// (ngx_stream_upstream_least_time_eta).
func (t *timing) load(p *Peer, now Millis) int64 {
	took := p.Average[t.mode]
	if t.inflight && p.Inflight.Count > 0 {
		took = max(took, p.Inflight.Average)
	}
	if idle := now.Seconds() - p.Checked; idle > p.FailTimeout {
		// Nobody has picked it for a while. Its time is forgotten by halves,
		// so that a peer that was slow once gets another chance.
		took >>= uint(idle / (p.FailTimeout + 1))
	}
	if took > slowest {
		took = slowest
	} else {
		took = (took/cluster + 1) * cluster
	}
	return int64(took) * (1 + p.conns())
}

func (t *timing) cold() cold { return coldByLoad }

// Inflight is what is known of a peer's sessions whose time is still running.
type Inflight struct {
	Average     Millis // moving average of their age
	Accumulated Millis // sum of their ages when one last came or went
	Changed     Millis // when that was, but for the last one to go
	Since       Millis // sessions that were picked before are left out
	Count       int
}

// fold takes their mean age now into the moving average.
func (f *Inflight) fold(now Millis) {
	if f.Count > 0 {
		f.Average = average(f.Average, f.Accumulated/Millis(f.Count)+now-f.Changed)
	}
}

// come counts a session of that age in.
func (f *Inflight) come(age, now Millis) {
	if now-age < f.Since {
		return
	}
	f.Accumulated += Millis(f.Count)*(now-f.Changed) + age
	f.Changed = now
	f.Count++
}

// leave counts a session of that age out.
func (f *Inflight) leave(age, now Millis) {
	if f.Count == 0 || now-age < f.Since {
		return // it came under another configuration
	}
	f.Count--
	if f.Count == 0 {
		f.Accumulated = 0
		return
	}
	f.Accumulated += Millis(f.Count+1)*(now-f.Changed) - age
	f.Changed = now
}

func (t *timing) Picked(p *Peer, now Millis) {
	if t.inflight {
		p.Inflight.come(0, now)
	}
}

func (t *timing) Held(p *Peer, took Times, now Millis) {
	if t.inflight && !t.ended(took) {
		p.Inflight.come(took[LastByte], now)
	}
}

// ended reports whether the running time of a session that goes on is over: it has
// come to its moment.
func (t *timing) ended(took Times) bool { return t.mode != LastByte && took[t.mode] != None }

func (t *timing) Connected(p *Peer, took, now Millis) { t.reached(Connect, p, took, now) }

func (t *timing) FirstByte(p *Peer, took, now Millis) { t.reached(FirstByte, p, took, now) }

// reached ends the running time of a session that has come to a moment.
func (t *timing) reached(m Moment, p *Peer, took, now Millis) {
	if t.inflight && t.mode == m {
		p.Inflight.leave(took, now)
		p.Average[m] = average(p.Average[m], took)
	}
}

// Released takes the samples of a session that did not fail
// (ngx_stream_upstream_free_least_time_peer). One that was given up before it was
// connected has none.
func (t *timing) Released(p *Peer, u Use, now Millis) {
	ended := t.inflight && t.ended(u.Took) // by reached
	if t.inflight && !ended {
		p.Inflight.leave(u.Took[LastByte], now)
	}
	if u.Failed || u.Took[Connect] == None {
		return
	}
	for m, took := range u.Took {
		if took != None && !(ended && Moment(m) == t.mode) {
			p.Average[m] = average(p.Average[m], took)
		}
	}
}

// average is nginx's moving average, in which a sample counts a twentieth. An
// average of 0 is none yet. The products are rounded on their own, as in C
// without contraction: a fused multiply-add would differ in the last integer.
func average(avg, sample Millis) Millis {
	if avg == 0 {
		return sample
	}
	return Millis(0.5 + (float64(float64(sample)*0.05) + float64(float64(avg)*0.95)))
}
