package reuseport

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// MaxWorkers is how many workers can be steered to.
const MaxWorkers = 1 << workerBits

const workerBits = 8

// ErrNotSupported is wrapped by the error of New where the kernel or the
// process's privileges do not allow steering. The cause follows it.
var ErrNotSupported = errors.New("steering needs Linux 5.14 and the capability CAP_BPF")

// Policy is how a worker is chosen.
type Policy uint8

// The policies.
const (
	Hash          Policy = iota // of addresses and ports: a client's port stays with its worker
	CPU                         // TCP: the CPU that received the SYN, modulo the workers
	LeastSessions               // TCP: the worker with the fewest sessions
	policies
)

// String returns the policy's name in the configuration.
func (p Policy) String() string {
	if p >= policies {
		return fmt.Sprintf("Policy(%d)", uint8(p))
	}
	return [policies]string{"hash", "cpu", "least_sessions"}[p]
}

// Protocol is what a group's sockets speak.
type Protocol uint8

// The protocols.
const (
	TCP Protocol = iota
	UDP
)

// Steering is a process's policy and its workers' sessions, which all its
// groups look at.
type Steering struct {
	// immutable
	policy Policy
	m      *ebpf.Map
	mem    []byte

	// atomic, any goroutine and the programs
	sessions *[MaxWorkers]int64

	mu      sync.Mutex
	surplus [MaxWorkers]int64 // found by the last Reconcile; guarded by mu
}

// New returns a Steering once it is sure that this process can steer; an error
// says what is missing.
func New(p Policy) (*Steering, error) {
	if p >= policies {
		return nil, fmt.Errorf("steer by %v: no such policy", p)
	}
	m, mem, err := newShared("weir_sessions", sessionBytes)
	if err != nil {
		return nil, notSupported(fmt.Errorf("create map: %w", err))
	}
	s := &Steering{policy: p, m: m, mem: mem, sessions: asSessions(mem)}
	g, err := s.NewGroup(TCP, 1)
	if err != nil {
		s.Close()
		return nil, notSupported(err)
	}
	g.Close()
	return s, nil
}

func notSupported(err error) error {
	if errors.Is(err, unix.EPERM) {
		err = unix.EPERM // ebpf's text guesses at RLIMIT_MEMLOCK, of kernels before 5.11
	}
	return fmt.Errorf("%w: %w", ErrNotSupported, err)
}

// Policy returns the policy.
func (s *Steering) Policy() Policy { return s.policy }

// Began counts a session that no program has counted: UDP sessions, and
// connections from listeners without a group.
func (s *Steering) Began(worker int) { atomic.AddInt64(&s.sessions[worker], 1) }

// Ended counts the end of a session, however it had begun.
func (s *Steering) Ended(worker int) { atomic.AddInt64(&s.sessions[worker], -1) }

// Sessions puts into out how many sessions each worker has, connections that
// are not yet accepted included.
func (s *Steering) Sessions(out []int64) {
	for w := range out {
		out[w] = atomic.LoadInt64(&s.sessions[w])
	}
}

// Reconcile corrects the counters, and returns by how many sessions. actual is
// how many sessions each worker has, from accept (or Began) to Ended, and how
// many connections wait in its accept queues (tcpi_unacked of TCP_INFO, asked of
// a listener, counts them; it is read after the sessions). Without the queues a
// worker that is slow to accept would look idler than it is.
//
// A counter may be above that because handshakes are under way, and below it
// because sessions have ended between the two readings, so neither is wrong by
// itself. Only what has been too much, or too little, at both this call and the
// last is taken for drift: SYNs whose connection never came, or came by a SYN
// cookie to another worker than its SYN. Call it every few seconds.
//
// Workers from MaxWorkers on are passed over: nobody is steered to them.
func (s *Steering) Reconcile(actual []int64) (corrected int64) {
	actual = actual[:min(len(actual), MaxWorkers)]
	s.mu.Lock()
	defer s.mu.Unlock()
	for w, n := range actual {
		surplus, last := atomic.LoadInt64(&s.sessions[w])-n, s.surplus[w]
		drift := int64(0)
		switch {
		case surplus > 0 && last > 0:
			drift = min(surplus, last)
		case surplus < 0 && last < 0:
			drift = max(surplus, last)
		}
		if drift != 0 {
			// Relative, since the counter goes on changing.
			atomic.AddInt64(&s.sessions[w], -drift)
		}
		s.surplus[w] = surplus - drift
		corrected += max(drift, -drift)
	}
	return corrected
}

// Close frees the counters. Programs that are attached go on.
// Preconditions: no other method is running or called afterwards.
func (s *Steering) Close() error {
	return errors.Join(unix.Munmap(s.mem), s.m.Close())
}
