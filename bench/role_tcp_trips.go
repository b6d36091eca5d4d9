package main

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// tripsFormat is the ping-pong's line: round trips and their rate per second,
// quantiles in microseconds, and the share of the time in which the load
// generator had nothing to do.
const tripsFormat = "trips %g rate %g p50 %g p99 %g p999 %g spare %g"

type tripsResult struct{ Trips, Rate, P50, P99, P999, Spare float64 }

func (r tripsResult) String() string {
	return fmt.Sprintf(tripsFormat, r.Trips, r.Rate, r.P50, r.P99, r.P999, r.Spare)
}

func parseTrips(line string) (r tripsResult, err error) {
	if _, err := fmt.Sscanf(line, tripsFormat, &r.Trips, &r.Rate, &r.P50, &r.P99, &r.P999, &r.Spare); err != nil {
		return r, fmt.Errorf("parse trips %q: %w", line, err)
	}
	return r, nil
}

// trips sends a message on each of its connections, waits for its echo, and so
// on. Unless it is told to sleep, it looks for events all the time: where it and
// the proxy both went to sleep for each message, waking up the machine's cores
// took three times as long as everything else.
type trips struct {
	load    *tcpLoad
	clients []tripClient
	size    int
	seq     uint64
	waiting int // clients for their answer
	over    bool
	timeout int // of a turn
	took    latencies
}

type tripClient struct {
	fd   int
	seq  uint64
	got  int // bytes of the answer
	sent time.Time
}

func runTrips(l *tcpLoad, target netip.AddrPort, connections, size int, d time.Duration, sleep bool) (tripsResult, error) {
	if size < udpStamp || size > len(l.buf) {
		return tripsResult{}, fmt.Errorf("a message has %d to %d bytes", udpStamp, len(l.buf))
	}
	t := &trips{load: l, size: size, took: newLatencies()}
	if sleep {
		t.timeout = int(tcpAnswer / time.Millisecond)
	}
	defer t.close()
	l.client = t.event
	for i := range connections {
		fd, err := openFrom(i%4, target)
		if err != nil {
			return tripsResult{}, fmt.Errorf("connection %d: %w", i+1, err)
		}
		t.clients = append(t.clients, tripClient{fd: fd})
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
			return tripsResult{}, fmt.Errorf("setsockopt TCP_NODELAY: %w", err)
		}
		if err := l.watch(fd, int32(i), unix.EPOLLIN); err != nil {
			return tripsResult{}, err
		}
	}
	return t.run(d)
}

// run sends for that long, and returns after the last answer.
func (t *trips) run(d time.Duration) (tripsResult, error) {
	idle := t.load.idle
	start := time.Now()
	for i := range t.clients {
		if err := t.send(&t.clients[i], i, time.Now()); err != nil {
			return tripsResult{}, err
		}
	}
	last, seen := start, 0
	for t.waiting > 0 {
		if err := t.load.turn(t.timeout); err != nil {
			return tripsResult{}, err
		}
		now := time.Now()
		t.over = now.Sub(start) >= d
		if len(t.took) > seen {
			last, seen = now, len(t.took)
		} else if now.Sub(last) >= tcpAnswer {
			return tripsResult{}, fmt.Errorf("no answer after %s", tcpAnswer)
		}
	}
	took := last.Sub(start).Seconds()
	slices.Sort(t.took)
	n := float64(len(t.took))
	return tripsResult{
		Trips: n, Rate: n / took, P50: t.took.quantile(0.50), P99: t.took.quantile(0.99), P999: t.took.quantile(0.999),
		Spare: (t.load.idle - idle).Seconds() / took,
	}, nil
}

func (t *trips) send(c *tripClient, number int, now time.Time) error {
	t.seq++
	c.seq, c.got, c.sent = t.seq, 0, now
	m := t.load.buf[:t.size]
	putStamp(m, uint32(number), t.seq)
	if err := writeFull(c.fd, m); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	t.waiting++
	return nil
}

func (t *trips) event(number int, _ uint32) error {
	c := &t.clients[number]
	n, err := rawRead(c.fd, t.load.buf[c.got:t.size])
	switch {
	case err != nil:
		return fmt.Errorf("read: %w", err)
	case n == 0:
		return errors.New("read: the connection has ended")
	}
	c.got += n
	if c.got < t.size {
		return nil // small messages hardly ever come in pieces, and only whole ones are checked
	}
	now := time.Now()
	if who, seq, ok := stamp(t.load.buf[:t.size], t.size); n == t.size && (!ok || int(who) != number || seq != c.seq) {
		return fmt.Errorf("read: message %d of client %d instead of %d of %d", seq, who, c.seq, number)
	}
	t.waiting--
	t.took.add(now.Sub(c.sent))
	if t.over {
		return nil
	}
	return t.send(c, number, now)
}

func (t *trips) close() {
	t.load.client = nil
	for _, c := range t.clients {
		unix.Close(c.fd)
	}
}
