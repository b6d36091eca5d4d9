package integration_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// roleVariable holds "ROLE ADDRESS BYTES" if this process is a role and not the
// tests: send-to, receive-from (both connect), send-on or receive-on (both
// listen). A sender prints "half" midway; both print the SHA-256 at the end.
const roleVariable = "WEIR_TEST_ROLE"

func runRole(text string) int {
	if err := playRole(strings.Fields(text)); err != nil {
		fmt.Println("error:", err)
		return 1
	}
	return 0
}

func playRole(f []string) error {
	verb, how, _ := strings.Cut(f[0], "-")
	size, err := strconv.Atoi(f[2])
	if err != nil {
		return err
	}
	var c net.Conn
	if how == "on" {
		ln, err := net.Listen("tcp", f[1])
		if err != nil {
			return err
		}
		fmt.Println("ready", ln.Addr())
		if c, err = ln.Accept(); err != nil {
			return err
		}
	} else if c, err = net.Dial("tcp", f[1]); err != nil {
		return err
	}
	var sum hash.Hash
	if verb == "send" {
		sum, err = sendRandom(c, size)
		if err == nil {
			_, err = io.Copy(io.Discard, c) // till the receiver has ended too
		}
	} else {
		sum = sha256.New()
		_, err = io.Copy(sum, c)
	}
	if err != nil {
		return err
	}
	if err := c.Close(); err != nil {
		return err
	}
	fmt.Println("sum", hex.EncodeToString(sum.Sum(nil)))
	return nil
}

// sendRandom writes size random bytes and ends the output.
func sendRandom(c net.Conn, size int) (hash.Hash, error) {
	source := rand.NewChaCha8([32]byte{byte(size)})
	sum := sha256.New()
	buf := make([]byte, 64<<10)
	told := false
	for left := size; left > 0; {
		b := buf[:min(left, len(buf))]
		source.Read(b)
		sum.Write(b)
		if _, err := c.Write(b); err != nil {
			return nil, err
		}
		if left -= len(b); left < size/2 && !told {
			told = true
			fmt.Println("half")
		}
	}
	return sum, c.(*net.TCPConn).CloseWrite()
}

// role is this test binary in a process of its own.
type role struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string // of its standard output
}

func startRole(t *testing.T, name, addr string, bytes int) *role {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := &role{t: t, cmd: exec.Command(exe), lines: make(chan string, 8)}
	r.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %d", roleVariable, name, addr, bytes))
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	r.cmd.Stderr = os.Stderr
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			r.lines <- scan.Text()
		}
	}()
	t.Cleanup(func() {
		r.cmd.Process.Kill()
		<-read
		r.cmd.Wait()
	})
	return r
}

// wait returns the rest of the process's next line, which must begin with word.
func (r *role) wait(word string) string {
	r.t.Helper()
	select {
	case line := <-r.lines:
		rest, ok := strings.CutPrefix(line, word)
		if !ok {
			r.t.Fatalf("a role said %q, want %q", line, word)
		}
		return strings.TrimSpace(rest)
	case <-time.After(scaled(60 * time.Second)):
		r.t.Fatalf("a role did not say %q", word)
	}
	return ""
}

func (r *role) signal(s syscall.Signal) {
	r.t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		r.t.Fatal(err)
	}
}
