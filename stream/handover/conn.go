package handover

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Version is that of the messages about sockets and peers. They only ever gain
// what another version may ignore: it stays.
const Version = 1

// Sessions is the version of the messages about sessions. It goes up with every
// change that another version would misunderstand; the two then move sockets
// and no sessions.
const Sessions = 2

// ErrVersion is wrapped when the other process speaks another version.
var ErrVersion = errors.New("the other process speaks another version of the handover")

// ErrEnded is wrapped when the other process is gone.
var ErrEnded = errors.New("the other process has ended")

// MaxPending is the most that a flow may have unsent outside a pipe, in bytes.
const MaxPending = 64 << 10

// maxMessage bounds one message: a session's unsent bytes in base64, twice
// MaxPending, and what else there is to say.
const maxMessage = 256 << 10

// maxFDs is the most that a message may hold (SCM_MAX_FD is 253).
const maxFDs = 32

// Conn is one end of the conversation.
type Conn struct {
	c   *net.UnixConn
	buf []byte
	oob []byte
}

// Pair returns the old process's end, and the file that the new process gets.
func Pair() (*Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("create socket pair: %w", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "handover")
	ours, err := FromFD(fds[0])
	if err != nil {
		_ = theirs.Close()
		return nil, nil, err
	}
	return ours, theirs, nil
}

// FromFD returns the end that a descriptor is, and takes possession of it.
func FromFD(fd int) (*Conn, error) {
	f := os.NewFile(uintptr(fd), "handover")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("use socket for the handover: %w", err)
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		_ = c.Close()
		return nil, fmt.Errorf("use socket for the handover: it is a %T", c)
	}
	// Room for some messages; less only makes it slower.
	_ = u.SetWriteBuffer(1 << 20)
	return &Conn{c: u, buf: make([]byte, maxMessage), oob: make([]byte, unix.CmsgSpace(4*maxFDs))}, nil
}

// Close ends the conversation.
func (c *Conn) Close() error { return c.c.Close() }

// SetDeadline bounds all sending and receiving; zero is no bound.
func (c *Conn) SetDeadline(at time.Time) { _ = c.c.SetDeadline(at) }

// Send sends a message with its descriptors, which stay the caller's.
func (c *Conn) Send(m *Message, fds ...int) error {
	text, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("send %s: %w", m.Kind, err)
	}
	if len(text) > maxMessage || len(fds) > maxFDs {
		return fmt.Errorf("send %s: %d bytes and %d descriptors are too much", m.Kind, len(text), len(fds))
	}
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	_, _, err = c.c.WriteMsgUnix(text, oob, nil)
	switch {
	case errors.Is(err, unix.EPIPE), errors.Is(err, unix.ECONNRESET):
		return fmt.Errorf("send %s: %w", m.Kind, c.lastWord())
	case err != nil:
		return fmt.Errorf("send %s: %w", m.Kind, err)
	}
	return nil
}

// lastWord is why a process that has ended did so: what it said before, or that it
// has said nothing.
func (c *Conn) lastWord() error {
	for {
		m, fds, err := c.Receive()
		if err != nil {
			return err
		}
		CloseAll(fds)
		if m.Kind == Failed {
			return failure(m)
		}
	}
}

// failure is the error that a message of kind Failed tells.
func failure(m *Message) error { return fmt.Errorf("the other process says: %s", m.Error) }

// Receive receives a message with its descriptors, which are the caller's.
func (c *Conn) Receive() (*Message, []int, error) {
	n, oobn, flags, _, err := c.c.ReadMsgUnix(c.buf, c.oob)
	if errors.Is(err, unix.ECONNRESET) {
		// It has gone without having read all that it was sent. The kernel says
		// so once, and before what it has sent itself.
		n, oobn, flags, _, err = c.c.ReadMsgUnix(c.buf, c.oob)
	}
	switch {
	case errors.Is(err, unix.ECONNRESET), errors.Is(err, io.EOF):
		return nil, nil, fmt.Errorf("receive: %w", ErrEnded)
	case err != nil:
		return nil, nil, fmt.Errorf("receive: %w", err)
	}
	fds, err := rights(c.oob[:oobn])
	if err != nil {
		return nil, nil, err
	}
	fail := func(err error) (*Message, []int, error) {
		CloseAll(fds)
		return nil, nil, err
	}
	switch {
	case n == 0:
		return fail(fmt.Errorf("receive: %w", ErrEnded))
	case flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
		return fail(fmt.Errorf("receive: message is too long"))
	}
	m := new(Message)
	if err := json.Unmarshal(c.buf[:n], m); err != nil {
		return fail(fmt.Errorf("receive: %w", err))
	}
	return m, fds, nil
}

// Expect receives a message of that kind. One of another kind is an error; an
// error message is what it says.
func (c *Conn) Expect(kind Kind) (*Message, []int, error) {
	m, fds, err := c.Receive()
	switch {
	case err != nil:
		return nil, nil, err
	case m.Kind == kind:
		return m, fds, nil
	}
	CloseAll(fds)
	if m.Kind == Failed {
		return nil, nil, failure(m)
	}
	return nil, nil, fmt.Errorf("receive: got %s, want %s", m.Kind, kind)
}

func rights(oob []byte) ([]int, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("receive descriptors: %w", err)
	}
	var fds []int
	for i := range messages {
		more, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			CloseAll(fds)
			return nil, fmt.Errorf("receive descriptors: %w", err)
		}
		fds = append(fds, more...)
	}
	return fds, nil
}

// CloseAll closes descriptors.
func CloseAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}
