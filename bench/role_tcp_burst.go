package main

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// burstFormat is the bursts' line: connections that were served, and that were
// not; milliseconds of a burst, in the median; and quantiles in microseconds of
// the time from connect to the first byte of the answer.
const burstFormat = "served %g errors %g took %g p50 %g p99 %g p999 %g"

type burstResult struct{ Served, Errors, Took, P50, P99, P999 float64 }

func (r burstResult) String() string {
	return fmt.Sprintf(burstFormat, r.Served, r.Errors, r.Took, r.P50, r.P99, r.P999)
}

func parseBurst(line string) (r burstResult, err error) {
	if _, err := fmt.Sscanf(line, burstFormat, &r.Served, &r.Errors, &r.Took, &r.P50, &r.P99, &r.P999); err != nil {
		return r, fmt.Errorf("parse burst %q: %w", line, err)
	}
	return r, nil
}

// bursts opens many connections at once, sends burstBytes on each and closes it
// at the first byte of the answer.
type bursts struct {
	load    *tcpLoad
	clients []burstClient
	waiting int
	errors  int
	took    latencies
	lengths []float64 // of each burst, in milliseconds
}

type burstClient struct {
	fd    int // -1 when it is done
	since time.Time
	sent  bool
}

const burstBytes = 64

func runBursts(l *tcpLoad, target netip.AddrPort, connections int, d time.Duration) (burstResult, error) {
	b := &bursts{load: l, clients: make([]burstClient, connections), took: newLatencies()}
	l.client = b.event
	defer func() { l.client = nil }()
	for start := time.Now(); time.Since(start) < d; {
		if err := b.once(target); err != nil {
			return burstResult{}, err
		}
	}
	slices.Sort(b.took)
	return burstResult{
		Served: float64(len(b.took)), Errors: float64(b.errors), Took: median(b.lengths),
		P50: b.took.quantile(0.50), P99: b.took.quantile(0.99), P999: b.took.quantile(0.999),
	}, nil
}

// once is a burst. Connections that have no answer after tcpAnswer are errors.
// It returns when the server's are closed too.
func (b *bursts) once(target netip.AddrPort) error {
	start := time.Now()
	for i := range b.clients {
		if err := b.connect(i, target); err != nil {
			return err
		}
	}
	for b.waiting > 0 && time.Since(start) < tcpAnswer {
		if err := b.load.turn(int(tcpAnswer / time.Millisecond)); err != nil {
			return err
		}
	}
	b.lengths = append(b.lengths, float64(time.Since(start))/float64(time.Millisecond))
	for i := range b.clients {
		if b.clients[i].fd >= 0 {
			b.end(i, false)
		}
	}
	for start := time.Now(); b.load.open > 0 && time.Since(start) < tcpAnswer; {
		if err := b.load.turn(100); err != nil {
			return err
		}
	}
	return nil
}

// connect watches a client once for both that it may write and that an answer
// is there; edge-triggered, as it may always write.
func (b *bursts) connect(number int, target netip.AddrPort) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	b.clients[number] = burstClient{fd: fd, since: time.Now()}
	b.waiting++
	err = unix.Connect(fd, &unix.SockaddrInet4{Addr: target.Addr().As4(), Port: int(target.Port())})
	if err != nil && !errors.Is(err, unix.EINPROGRESS) {
		b.end(number, false)
		return nil
	}
	return b.load.watch(fd, int32(number), unix.EPOLLIN|unix.EPOLLOUT|unix.EPOLLET)
}

func (b *bursts) event(number int, events uint32) error {
	c := &b.clients[number]
	switch {
	case c.fd < 0:
	case events&(unix.EPOLLERR|unix.EPOLLHUP) != 0:
		b.end(number, false)
	case events&unix.EPOLLIN != 0:
		n, err := rawRead(c.fd, b.load.buf)
		b.end(number, err == nil && n > 0 && c.sent)
	case !c.sent:
		c.sent = true
		if writeFull(c.fd, b.load.buf[:burstBytes]) != nil {
			b.end(number, false)
		}
	}
	return nil
}

func (b *bursts) end(number int, served bool) {
	c := &b.clients[number]
	if served {
		b.took.add(time.Since(c.since))
	} else {
		b.errors++
	}
	b.waiting--
	unix.Close(c.fd)
	c.fd = -1
}
