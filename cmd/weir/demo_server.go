package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// demoBytes is what a server sends for the path /bytes.
const demoBytes = 64 << 10

// demoServer is one of the demo's servers. It answers HTTP requests, and the
// first line of anything else, after which it closes: every flavour of nc ends
// then. Over UDP it answers DNS queries.
type demoServer struct {
	name     string
	weight   int
	listener *net.TCPListener
	hold     *net.UDPConn // keeps the port for dns

	away      bool           // used by the demo's goroutine only
	dns       *net.UDPConn   // the same; closed while the server is away
	accepting sync.WaitGroup // the goroutines that accept and answer queries
	answering sync.WaitGroup // one for each connection

	mu    sync.Mutex
	shut  bool                      // guarded by mu: what is accepted now is reset
	conns map[*net.TCPConn]struct{} // guarded by mu
}

func startDemoServer(name string, weight int) (s *demoServer, err error) {
	for range 10 { // a port that is free for UDP may be taken for TCP
		s, err = listenDemo(name, weight)
		if !errors.Is(err, unix.EADDRINUSE) {
			break
		}
	}
	return s, err
}

func listenDemo(name string, weight int) (*demoServer, error) {
	// While dns is closed the kernel may give its port to a socket that asks for
	// any, but not if the port is taken on one of the machine's addresses.
	hold, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 2)})
	if err != nil {
		return nil, err
	}
	// takeAway needs a port that was asked for: shutdown(2) gives one back that
	// the kernel has chosen.
	port := hold.LocalAddr().(*net.UDPAddr).Port
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		_ = hold.Close()
		return nil, err
	}
	s := &demoServer{name: name, weight: weight, listener: l, hold: hold, conns: make(map[*net.TCPConn]struct{})}
	if err := s.listenDNS(); err != nil {
		_ = l.Close()
		_ = hold.Close()
		return nil, err
	}
	s.accepting.Go(s.accept)
	return s, nil
}

func (s *demoServer) addr() netip.AddrPort {
	return s.listener.Addr().(*net.TCPAddr).AddrPort()
}

func (s *demoServer) accept() {
	for {
		c, err := s.listener.AcceptTCP()
		if err != nil {
			return // taken away or closed
		}
		s.mu.Lock()
		if s.shut {
			reset(c)
			s.mu.Unlock()
			continue
		}
		s.conns[c] = struct{}{}
		s.mu.Unlock()
		s.answering.Go(func() {
			s.answer(c)
			s.mu.Lock()
			delete(s.conns, c)
			s.mu.Unlock()
			_ = c.Close() // closed by takeAway already, perhaps
		})
	}
}

// takeAway refuses connections and datagrams from now on, resets the
// connections that are there and returns how many they were.
//
// shutdown(2) turns a listening socket into a bound one that does not listen.
// Closing it would free its port for the source port of some connection, and
// the server could not come back.
func (s *demoServer) takeAway() int {
	s.away = true
	_ = s.dns.Close()
	_ = s.control(func(fd int) error { return unix.Shutdown(fd, unix.SHUT_RD) }) // can't fail while it listens
	n := s.resetAll()
	s.accepting.Wait()
	return n
}

func (s *demoServer) comeBack() error {
	if err := s.listenDNS(); err != nil {
		return err
	}
	if err := s.control(func(fd int) error { return unix.Listen(fd, unix.SOMAXCONN) }); err != nil {
		return fmt.Errorf("listen on %s: %w", s.addr(), err)
	}
	s.mu.Lock()
	s.shut = false
	s.mu.Unlock()
	s.away = false
	s.accepting.Go(s.accept)
	return nil
}

// close ends everything that the server has.
func (s *demoServer) close() {
	_ = s.listener.Close()
	_ = s.dns.Close() // by takeAway already, perhaps
	_ = s.hold.Close()
	s.resetAll()
	s.accepting.Wait()
	s.answering.Wait()
}

func (s *demoServer) control(f func(fd int) error) error {
	raw, err := s.listener.SyscallConn()
	if err != nil {
		return err
	}
	if outer := raw.Control(func(fd uintptr) { err = f(int(fd)) }); outer != nil {
		return outer
	}
	return err
}

func (s *demoServer) resetAll() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shut = true
	for c := range s.conns {
		reset(c)
	}
	return len(s.conns)
}

func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}

// answer serves one connection. Errors end it and concern nobody else.
func (s *demoServer) answer(c *net.TCPConn) {
	in := bufio.NewReader(c)
	line, err := in.ReadSlice('\n') // no longer than the reader's buffer
	if err != nil {
		return
	}
	first := string(line)
	if !strings.Contains(first, " HTTP/1.") {
		_, _ = fmt.Fprintf(c, "%s: %s", s.name, first)
		return
	}
	in = bufio.NewReader(io.MultiReader(strings.NewReader(first), in))
	for {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return
		}
		body := "hello from " + s.name + "\n"
		if req.URL.Path == "/bytes" {
			body = strings.Repeat(s.name, demoBytes)
		}
		_, err = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		if err != nil || req.Close || req.Method == http.MethodHead {
			return
		}
	}
}
