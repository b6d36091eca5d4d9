package main

import (
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// floodFormat is the flood's line: datagrams sent, in how many seconds, and of
// those that came the number, the wrong ones, and those that came after a later
// one or twice; messages that the sink had no room for.
const floodFormat = "sent %d seconds %g came %d wrong %d backwards %d dropped %d"

type floodResult struct {
	Sent                            int64
	Seconds                         float64
	Came, Wrong, Backwards, Dropped int64
}

const (
	// floodMost bounds a flood, whatever the time.
	floodMost = 100_000_000
	// floodBatch is how many datagrams of a flow go out before those of the next.
	floodBatch = 16
	// floodFlows is the most flows.
	floodFlows = 64
	// floodQuiet is how long nothing has come when nothing more will.
	floodQuiet = 150 * time.Millisecond
)

// flood sends one way as fast as it goes, and is the sink too.
type flood struct {
	size, segments int // bytes of a datagram, and how many of them the kernel cuts from a message
	fds            []int
	sink           int
	out, in        *udpBatch
	last           [floodFlows]uint64 // highest sequence that came
	result         floodResult
}

// udpFlood is the flood. Its numbers are the bytes of a datagram, flows, and
// how many datagrams are left to the kernel to cut from one message
// (UDP_SEGMENT, with UDP_GRO on the sink; 1 = none).
func udpFlood(args []string) error {
	a, err := parseUDPLoad(args, 3)
	if err != nil {
		return err
	}
	beOneThread()
	r, err := runFlood(a, a.numbers[0], a.numbers[1], a.numbers[2])
	if err != nil {
		return err
	}
	fmt.Printf(floodFormat+"\n", r.Sent, r.Seconds, r.Came, r.Wrong, r.Backwards, r.Dropped)
	return nil
}

func runFlood(a udpLoadArgs, size, flows, segments int) (floodResult, error) {
	if size < udpStamp || flows < 1 || flows > floodFlows || segments < 1 || size*segments > coalescedRoom {
		return floodResult{}, fmt.Errorf("a datagram has at least %d bytes, a message at most %d, and there are 1 to %d flows", udpStamp, coalescedRoom, floodFlows)
	}
	f := &flood{size: size, segments: segments}
	defer f.close()
	if err := f.open(a, flows); err != nil {
		return floodResult{}, err
	}
	if err := f.run(a.time); err != nil {
		return floodResult{}, err
	}
	var err error
	f.result.Dropped, err = readDrops(a.server)
	return f.result, err
}

func (f *flood) open(a udpLoadArgs, flows int) (err error) {
	f.sink = -1
	if f.sink, err = udpSocket(a.server); err != nil {
		return err
	}
	room := plainRoom
	if f.segments > 1 {
		room = coalescedRoom
		if err := unix.SetsockoptInt(f.sink, unix.SOL_UDP, unix.UDP_GRO, 1); err != nil {
			return fmt.Errorf("setsockopt UDP_GRO: %w", err)
		}
	}
	for flow := range flows {
		fd, err := f.sender(a.target, flow)
		if err != nil {
			return err
		}
		f.fds = append(f.fds, fd)
	}
	f.out = newUDPBatch(max(1, floodBatch/f.segments), f.size*f.segments)
	f.in = newUDPBatch(udpBatchMessages, room)
	return nil
}

// sender opens a flow's own connected socket: with one for all flows, as in the
// closed loop, each datagram costs another look-up of its route.
func (f *flood) sender(target netip.AddrPort, flow int) (int, error) {
	fd, err := udpSocket(netip.AddrPortFrom(netip.AddrFrom4(flowAddress(uint64(flow))), 0))
	if err != nil {
		return -1, err
	}
	if f.segments > 1 {
		if err := unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_SEGMENT, f.size); err != nil {
			unix.Close(fd)
			return -1, fmt.Errorf("setsockopt UDP_SEGMENT: %w", err)
		}
	}
	if err := unix.Connect(fd, &unix.SockaddrInet4{Addr: target.Addr().As4(), Port: int(target.Port())}); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("connect: %w", err)
	}
	return fd, nil
}

func (f *flood) close() {
	if f.sink >= 0 {
		unix.Close(f.sink)
	}
	for _, fd := range f.fds {
		unix.Close(fd)
	}
}

// run sends for that long, and receives until nothing more comes.
func (f *flood) run(d time.Duration) error {
	start := time.Now()
	seq := uint64(start.UnixNano()) // higher than in every earlier run
	now := start
	for flow := 0; now.Sub(start) < d && f.result.Sent < floodMost; flow = (flow + 1) % len(f.fds) {
		var err error
		if seq, err = f.send(flow, seq); err != nil {
			return fmt.Errorf("send: %w", err)
		}
		if _, err := f.receive(); err != nil {
			return err
		}
		now = time.Now()
	}
	f.result.Seconds = now.Sub(start).Seconds()
	for last := now; now.Sub(last) < floodQuiet; now = time.Now() {
		n, err := f.receive()
		if err != nil {
			return err
		}
		if n > 0 {
			last = now
		}
	}
	return nil
}

// send sends a batch of a flow, numbered after seq.
func (f *flood) send(flow int, seq uint64) (uint64, error) {
	for i := range f.out.len() {
		m := f.out.outgoing(i, f.size*f.segments)
		for len(m) > 0 {
			seq++
			putStamp(m[:f.size], uint32(flow), seq)
			m = m[f.size:]
		}
	}
	f.result.Sent += int64(f.out.len() * f.segments)
	return seq, f.out.send(f.fds[flow], f.out.len())
}

// receive takes what has come to the sink.
func (f *flood) receive() (messages int, err error) {
	for {
		n, err := f.in.receive(f.sink)
		if err != nil {
			return messages, fmt.Errorf("receive: %w", err)
		}
		for i := range n {
			f.take(i)
		}
		messages += n
		if n < f.in.len() {
			return messages, nil
		}
	}
}

// take checks the datagrams of message i.
func (f *flood) take(i int) {
	rest := f.in.payload(i)
	_, segment := f.in.info(i)
	if segment == 0 {
		segment = max(1, len(rest))
	}
	for len(rest) > 0 {
		d := rest[:min(segment, len(rest))]
		rest = rest[len(d):]
		f.result.Came++
		flow, seq, ok := stamp(d, f.size)
		switch {
		case !ok || int(flow) >= len(f.fds):
			f.result.Wrong++
		case seq <= f.last[flow]:
			f.result.Backwards++
		default:
			f.last[flow] = seq
		}
	}
}
