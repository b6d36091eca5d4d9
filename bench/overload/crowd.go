package overload

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// Crowd is clients that ask as soon as they have been answered.
type Crowd struct {
	addr    string
	leave   context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	turns   Turns // guarded by mu
	refused int   // guarded by mu
	wrong   error // guarded by mu
}

// afterRefusal is how long a client waits before it connects again.
const afterRefusal = 200 * time.Millisecond

// Gather starts so many clients.
func Gather(addr string, clients int) *Crowd {
	ctx, cancel := context.WithCancel(context.Background())
	c := &Crowd{addr: addr, leave: cancel}
	for number := range clients {
		c.running.Go(func() {
			for ctx.Err() == nil {
				c.visit(ctx, number)
				if ctx.Err() != nil {
					return
				}
				c.mu.Lock()
				c.refused++
				c.mu.Unlock()
				select {
				case <-ctx.Done():
				case <-time.After(afterRefusal):
				}
			}
		})
	}
	return c
}

// Leave ends the clients, in the middle of what they are doing. It may be called
// again.
func (c *Crowd) Leave() {
	c.leave()
	c.running.Wait()
}

// visit is one connection, as long as it lasts.
func (c *Crowd) visit(ctx context.Context, number int) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	in := bufio.NewReader(conn)
	var line []byte
	for turn := 0; ; turn++ {
		line = fmt.Appendf(line[:0], "client %d turn %d\n", number, turn)
		asked := time.Now()
		if _, err := conn.Write(line); err != nil {
			return
		}
		answer, err := in.ReadSlice('\n')
		if err != nil {
			return
		}
		c.mu.Lock()
		c.turns = c.turns.answered(asked)
		if !bytes.Equal(answer, line) && c.wrong == nil {
			c.wrong = fmt.Errorf("read %q, want %q", answer, line)
		}
		c.mu.Unlock()
	}
}

// Turns returns what has been answered. It must not be changed.
func (c *Crowd) Turns() Turns {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.turns[:len(c.turns):len(c.turns)]
}

// Refused is how many sessions could not be had, or ended before their client
// did.
func (c *Crowd) Refused() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused
}

// Wrong is the first answer that was not its question's; nil if there is none.
func (c *Crowd) Wrong() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wrong
}
