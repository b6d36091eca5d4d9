package admin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/internal/port"
)

// Listener is an open place of the control API.
type Listener struct {
	conf   conf.Admin
	socket net.Listener
	file   fs.FileInfo // of a unix socket, to remove no other one; nil over TCP
	token  *token      // nil = none is asked for

	takenOver bool   // another process listens there as yet
	ownPort   bool   // the listener that it replaces has the address, or a part of it
	aside     string // path of a unix socket that is not published; "" = it is
}

// token is a secret in a form whose comparison tells nothing of it.
type token [sha256.Size]byte

const (
	minToken = 16   // bytes
	maxToken = 4096 // bytes
)

// Listen opens the place that the settings name, or returns nil if they name
// none.
func Listen(c *conf.Admin) (*Listener, error) { return open(c, Listener{}) }

// TakeOver is Listen for a process that takes over from another, which goes on
// listening until Publish: a unix socket waits aside, and a port is not opened yet.
func TakeOver(c *conf.Admin) (*Listener, error) { return open(c, Listener{takenOver: true}) }

// Publish puts what TakeOver has prepared in place of the old process's. Until
// it is served, clients wait.
func (l *Listener) Publish() (err error) {
	if l == nil {
		return nil
	}
	if l.aside != "" {
		err = os.Rename(l.aside, l.conf.Listen.Path)
	} else {
		err = l.openTCP(true)
	}
	if err != nil {
		return fmt.Errorf("open control API: %w", err)
	}
	l.aside = ""
	return nil
}

// open opens l, of which the rest is set.
func open(c *conf.Admin, l Listener) (*Listener, error) {
	if c.Listen.IsZero() {
		return nil, nil
	}
	l.conf = *c
	var err error
	if l.token, err = readToken(c); err == nil {
		err = l.open()
	}
	if err != nil {
		return nil, fmt.Errorf("open control API: %w", err)
	}
	return &l, nil
}

func (l *Listener) open() error {
	if !l.conf.Listen.IsUnix() {
		if l.takenOver {
			return nil
		}
		return l.openTCP(l.ownPort)
	}
	return l.openUnix()
}

func (l *Listener) openTCP(shared bool) (err error) {
	ip, _ := l.conf.Listen.IP()
	l.socket, err = port.Listen(netip.AddrPortFrom(ip, l.conf.Listen.Port), shared)
	return err
}

func (l *Listener) openUnix() error {
	path := l.conf.Listen.Path
	if l.takenOver {
		path += ".new"
		l.aside = path
	}
	gid, err := groupID(l.conf.Group)
	if err != nil {
		return err
	}
	socket, err := listenUnix(path)
	if errors.Is(err, syscall.EADDRINUSE) {
		if err := removeStale(path); err != nil {
			return err
		}
		socket, err = listenUnix(path)
	}
	if err != nil {
		return advise(path, err)
	}
	socket.SetUnlinkOnClose(false)
	l.socket = socket
	if l.file, err = os.Lstat(path); err == nil {
		err = setGroup(path, gid)
	}
	if err != nil {
		l.Close()
	}
	return err
}

// listenUnix opens a socket that nobody but the owner can use from its first
// moment on: bind(2) gives the file the mode of the socket (unix_bind).
func listenUnix(path string) (*net.UnixListener, error) {
	private := func(_, _ string, c syscall.RawConn) error {
		var err error
		if e := c.Control(func(fd uintptr) { err = syscall.Fchmod(int(fd), 0o600) }); e != nil {
			return e
		}
		return err
	}
	config := net.ListenConfig{Control: private}
	l, err := config.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	return l.(*net.UnixListener), nil
}

// removeStale removes a socket that nobody listens on: its process has died.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSocket == 0 {
		return fmt.Errorf("%s is there already and no socket: move it away, or listen elsewhere", path)
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		c.Close()
		return fmt.Errorf("somebody listens on unix:%s already: is weir running?", path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("unix:%s is there already, and can't be tried out: %w", path, cause(err))
	}
	return os.Remove(path)
}

// advise says what to do about a socket that can't be opened.
func advise(path string, err error) error {
	dir := filepath.Dir(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("listen on unix:%s: there is no directory %s; make it (with systemd: RuntimeDirectory=weir makes /run/weir)", path, dir)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("listen on unix:%s: this user may not create files in %s", path, dir)
	}
	return fmt.Errorf("listen on unix:%s: %w", path, cause(err))
}

// cause returns the errno in an error of package net, whose text repeats the
// address.
func cause(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}

// groupID returns the number of a group, or -1 for none.
func groupID(name string) (int, error) {
	if name == "" {
		return -1, nil
	}
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, fmt.Errorf("there is no group %q on this machine", name)
	}
	return strconv.Atoi(g.Gid)
}

// setGroup gives the socket to a group and its owner, or to its owner alone.
func setGroup(path string, gid int) error {
	mode := fs.FileMode(0o600)
	if gid >= 0 {
		if err := os.Chown(path, -1, gid); err != nil {
			return fmt.Errorf("give %s to its group: %w", path, cause(err))
		}
		mode = 0o660
	}
	return os.Chmod(path, mode)
}

// readToken reads what TCP clients must show.
func readToken(c *conf.Admin) (*token, error) {
	if c.TokenFile == "" || c.Listen.IsUnix() {
		return nil, nil
	}
	text, err := ReadToken(c.TokenFile)
	if err != nil {
		return nil, err
	}
	t := token(sha256.Sum256([]byte(text)))
	return &t, nil
}

// ReadToken reads a token_file.
func ReadToken(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read token_file: %w", err)
	}
	text = bytes.TrimSpace(text)
	switch {
	case len(text) < minToken:
		return "", fmt.Errorf("read token_file: the token in %s has %d characters, which is too few to be safe: openssl rand -hex 32 makes a good one", path, len(text))
	case len(text) > maxToken || bytes.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", fmt.Errorf("read token_file: %s must hold one word of at most %d visible ASCII characters", path, maxToken)
	}
	return string(text), nil
}

// Addr returns where it listens.
func (l *Listener) Addr() conf.Address { return l.conf.Listen }

// Close stops listening.
func (l *Listener) Close() {
	l.remove()
	if l.socket == nil {
		return
	}
	_ = l.socket.Close() // what it waits for comes no more either way
}

// remove removes the socket's file, if it is still its own.
func (l *Listener) remove() {
	path := l.conf.Listen.Path
	if l.aside != "" {
		path = l.aside
	}
	if now, err := os.Lstat(path); l.file != nil && err == nil && os.SameFile(now, l.file) {
		_ = os.Remove(path) // its directory may have become read-only
	}
}
