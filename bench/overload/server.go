package overload

import (
	"bufio"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// Model is how a server behaves.
type Model struct {
	Work     time.Duration // mean of what one line takes
	Spread   float64       // lines differ evenly from the mean by up to this share of it, 0..1
	Capacity int           // lines at once that each take no longer than their work
}

// Best is how many lines a second the server can answer at most.
func (m Model) Best() float64 { return float64(m.Capacity) / m.Work.Seconds() }

// Latency is the percentile of latency with so many lines always under way.
func (m Model) Latency(percentile float64, underWay int) time.Duration {
	alone := float64(m.Work) * (1 + m.Spread*(2*percentile-1))
	return time.Duration(alone * max(1, float64(underWay)/float64(m.Capacity)))
}

// Server answers each line with the same line, once its work is done.
type Server struct {
	model   Model
	ln      net.Listener
	running sync.WaitGroup
	closed  chan struct{}

	mu       sync.Mutex
	conns    map[net.Conn]bool // guarded by mu; nil = closed
	sharing  sharing           // guarded by mu
	timer    *time.Timer       // guarded by mu; for the next job that is done
	underWay int               // guarded by mu
	late     int               // guarded by mu; lines that are yet to be answered late
	lateBy   time.Duration     // guarded by mu
	turns    Turns             // guarded by mu
}

// Listen starts a server on an address.
func Listen(addr string, m Model) (*Server, error) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	s := &Server{model: m, ln: ln, closed: make(chan struct{}), conns: map[net.Conn]bool{}}
	s.sharing = sharing{capacity: m.Capacity, at: time.Now()}
	s.timer = time.AfterFunc(time.Hour, s.tick)
	s.running.Go(s.accept)
	return s, nil
}

// Addr is where it listens.
func (s *Server) Addr() string { return s.ln.Addr().String() }

// Close ends the server and its connections.
func (s *Server) Close() {
	s.ln.Close()
	s.mu.Lock()
	if s.conns != nil {
		close(s.closed)
	}
	for c := range s.conns {
		c.Close()
	}
	s.conns = nil
	s.timer.Stop()
	s.mu.Unlock()
	s.running.Wait()
}

// Delay has the next n answers come that much later, as if their lines had met a
// lock. It costs the others nothing.
func (s *Server) Delay(n int, by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late, s.lateBy = n, by
}

// UnderWay is how many lines are not answered yet.
func (s *Server) UnderWay() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.underWay
}

// Turns returns what has been answered. It must not be changed.
func (s *Server) Turns() Turns {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.turns[:len(s.turns):len(s.turns)]
}

func (s *Server) accept() {
	for {
		c, err := s.ln.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.conns == nil {
			c.Close()
		} else {
			s.conns[c] = true
			s.running.Go(func() { s.serve(c) })
		}
		s.mu.Unlock()
	}
}

func (s *Server) serve(c net.Conn) {
	defer func() {
		c.Close()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	}()
	in, done := bufio.NewReader(c), make(chan struct{}, 1)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil || !s.work(done) {
			return
		}
		if _, err := c.Write(line); err != nil {
			return
		}
	}
}

// work returns when a line's work is done, or false if the server was closed.
func (s *Server) work(done chan struct{}) bool {
	s.mu.Lock()
	began := time.Now()
	s.sharing.advance(began)
	s.sharing.add(time.Duration(float64(s.model.Work)*(1+s.model.Spread*(2*rand.Float64()-1))), done)
	s.underWay++
	s.wakeLocked()
	by := time.Duration(0)
	if s.late > 0 {
		s.late--
		by = s.lateBy
	}
	s.mu.Unlock()

	select {
	case <-done:
	case <-s.closed:
		return false
	}
	if by > 0 {
		select {
		case <-time.After(by):
		case <-s.closed:
			return false
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.underWay--
	s.turns = s.turns.answered(began)
	return true
}

// tick is called when a job is done.
func (s *Server) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sharing.advance(time.Now())
	s.wakeLocked()
}

func (s *Server) wakeLocked() {
	if s.conns != nil && len(s.sharing.jobs) > 0 {
		s.timer.Reset(time.Until(s.sharing.next()))
	}
}
