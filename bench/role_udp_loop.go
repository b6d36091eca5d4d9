package main

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// udpLost is how long an answer may take; the next datagram then takes the
	// place of the lost one.
	udpLost = 300 * time.Millisecond
	// udpScan is how often lost ones are looked for.
	udpScan = 50 * time.Millisecond
)

// loopFormat is the closed loop's line: answers, per second, and how many were
// lost, late or double, and wrong; p50, p99 and p999 in microseconds; and the share
// of the time in which there was nothing to do.
const loopFormat = "answers %g rate %g lost %g late %g wrong %g p50 %g p99 %g p999 %g spare %g"

type loopResult struct{ Answers, Rate, Lost, Late, Wrong, P50, P99, P999, Spare float64 }

// closedLoop sends a datagram, waits for its answer, and so on, in many places
// at once.
type closedLoop struct {
	// immutable
	fd, server int
	target     unix.RawSockaddrInet4
	size       int
	window     int  // places of one flow
	sessions   bool // every datagram is a flow of its own

	places              []place
	seq                 uint64
	in, out, echo       *udpBatch
	gathered            int // in out
	answers, late, lost int
	wrong               int
	idle                time.Duration
	trips               [1 << 16]uint32 // by microseconds; the last one and more
}

// place is room for one datagram in flight.
type place struct {
	seq  uint64
	sent time.Time
	open bool // waits for its answer
}

// udpLoop is the closed loop. Its numbers are the bytes of a datagram, flows
// and datagrams in flight of each, and 1 if every datagram is a flow of its
// own, else 0.
func udpLoop(args []string) error {
	a, err := parseUDPLoad(args, 4)
	if err != nil {
		return err
	}
	beOneThread()
	r, err := runClosedLoop(a, a.numbers[0], a.numbers[1], a.numbers[2], a.numbers[3] == 1)
	if err != nil {
		return err
	}
	fmt.Printf(loopFormat+"\n", r.Answers, r.Rate, r.Lost, r.Late, r.Wrong, r.P50, r.P99, r.P999, r.Spare)
	return nil
}

func runClosedLoop(a udpLoadArgs, size, flows, window int, sessions bool) (loopResult, error) {
	if size < udpStamp || size > plainRoom || flows*window == 0 {
		return loopResult{}, fmt.Errorf("a datagram has %d to %d bytes, and there is at least one", udpStamp, plainRoom)
	}
	server, err := udpSocket(a.server)
	if err != nil {
		return loopResult{}, err
	}
	defer unix.Close(server)
	fd, err := udpClientSocket()
	if err != nil {
		return loopResult{}, err
	}
	defer unix.Close(fd)
	l := &closedLoop{
		fd: fd, server: server, target: rawAddress(a.target), size: size, window: window, sessions: sessions,
		places: make([]place, flows*window),
		seq:    uint64(time.Now().UnixNano()), // differs from that of every other run
		in:     newUDPBatch(udpBatchMessages, plainRoom),
		out:    newUDPBatch(udpBatchMessages, plainRoom),
		echo:   newUDPBatch(udpBatchMessages, plainRoom),
	}
	took, err := l.run(a.time)
	if err != nil {
		return loopResult{}, err
	}
	n := float64(l.answers)
	return loopResult{
		Answers: n, Rate: n / took.Seconds(), Lost: float64(l.lost), Late: float64(l.late), Wrong: float64(l.wrong),
		P50: l.quantile(0.50), P99: l.quantile(0.99), P999: l.quantile(0.999), Spare: l.idle.Seconds() / took.Seconds(),
	}, nil
}

// run sends for that long and then waits for what is still out. It returns the
// time until the last answer.
func (l *closedLoop) run(d time.Duration) (time.Duration, error) {
	start := time.Now()
	end, last, scan, now := start.Add(d), start, start.Add(udpScan), start
	for i := range l.places {
		if err := l.fill(i, start); err != nil {
			return 0, err
		}
	}
	if err := l.flush(); err != nil {
		return 0, err
	}
	for {
		asked, err := l.serve()
		if err != nil {
			return 0, err
		}
		answered, err := l.in.receive(l.fd)
		if err != nil {
			return 0, fmt.Errorf("receive answers: %w", err)
		}
		before := now
		now = time.Now()
		over := now.After(end)
		switch {
		case answered > 0:
			last = now
		case asked == 0 && !over:
			l.idle += now.Sub(before)
		}
		for k := range answered {
			i, ok := l.take(k, now)
			if !ok || over {
				continue
			}
			if err := l.fill(i, now); err != nil {
				return 0, err
			}
		}
		if now.After(scan) {
			scan = now.Add(udpScan)
			if err := l.replaceLost(now, over); err != nil {
				return 0, err
			}
		}
		if err := l.flush(); err != nil {
			return 0, err
		}
		if over && l.done() {
			return last.Sub(start), nil
		}
	}
}

// serve is the server's turn: what has come goes back.
func (l *closedLoop) serve() (int, error) {
	n, err := l.echo.receive(l.server)
	if err == nil {
		err = l.echo.answer(l.server, n)
	}
	if err != nil {
		return 0, fmt.Errorf("serve: %w", err)
	}
	return n, nil
}

// take checks received message k and returns the place it has freed.
func (l *closedLoop) take(k int, now time.Time) (place int, ok bool) {
	i, seq, ok := stamp(l.in.payload(k), l.size)
	local, _ := l.in.info(k)
	if !ok || int(i) >= len(l.places) || local != l.source(int(i), seq) || *l.in.from(k) != l.target {
		l.wrong++
		return 0, false
	}
	p := &l.places[i]
	if !p.open || p.seq != seq {
		l.late++
		return 0, false
	}
	p.open = false
	l.answers++
	us := now.Sub(p.sent).Microseconds()
	l.trips[min(us, int64(len(l.trips)-1))]++
	return int(i), true
}

// source is the address that a place's datagram is sent from.
func (l *closedLoop) source(place int, seq uint64) [4]byte {
	if l.sessions {
		return flowAddress(seq)
	}
	return flowAddress(uint64(place / l.window))
}

// fill gathers the next datagram of a place.
func (l *closedLoop) fill(i int, now time.Time) error {
	if l.gathered == l.out.len() {
		if err := l.flush(); err != nil {
			return err
		}
	}
	l.seq++
	l.places[i] = place{seq: l.seq, sent: now, open: true}
	putStamp(l.out.outgoing(l.gathered, l.size), uint32(i), l.seq)
	l.out.address(l.gathered, l.source(i, l.seq), &l.target)
	l.gathered++
	return nil
}

func (l *closedLoop) flush() error {
	n := l.gathered
	l.gathered = 0
	if err := l.out.send(l.fd, n); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

func (l *closedLoop) replaceLost(now time.Time, over bool) error {
	for i := range l.places {
		p := &l.places[i]
		if !p.open || now.Sub(p.sent) < udpLost {
			continue
		}
		p.open = false
		l.lost++
		if over {
			continue
		}
		if err := l.fill(i, now); err != nil {
			return err
		}
	}
	return nil
}

// done reports whether nothing is in flight.
func (l *closedLoop) done() bool {
	for i := range l.places {
		if l.places[i].open {
			return false
		}
	}
	return true
}

// quantile is a round trip in microseconds.
func (l *closedLoop) quantile(q float64) float64 {
	rank := int(q * float64(l.answers-1))
	for us, n := range l.trips {
		if rank -= int(n); rank < 0 {
			return float64(us)
		}
	}
	return 0
}
