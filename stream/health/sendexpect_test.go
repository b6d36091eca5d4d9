package health

import (
	"bytes"
	"io"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
)

func send(text string) conf.Step    { return conf.Step{Send: []byte(text)} }
func expect(text string) conf.Step  { return conf.Step{Expect: []byte(text)} }
func matches(text string) conf.Step { return conf.Step{Match: regexp.MustCompile(text)} }

func TestSendExpect(t *testing.T) {
	// It greets in pieces, and echoes in upper case.
	target := serve(t, func(c net.Conn) {
		for _, piece := range []string{"220 he", "llo ", "world\r\n"} {
			io.WriteString(c, piece)
			time.Sleep(time.Millisecond)
		}
		b := make([]byte, 100)
		for {
			n, err := c.Read(b)
			if err != nil {
				return
			}
			c.Write(bytes.ToUpper(b[:n]))
		}
	})
	for _, test := range []struct {
		steps []conf.Step
		want  string
	}{
		{[]conf.Step{expect("220"), expect("hello"), expect("world\r\n")}, ""},
		{[]conf.Step{expect("hello"), matches(`^ w.*d\r\n`), send("quit"), expect("QUIT")}, ""},
		{[]conf.Step{expect("\n"), send("a\x00b"), expect("A\x00B")}, ""},
		{[]conf.Step{expect("hello"), expect("hello")}, `timed out after LIMIT waiting for "hello" after " world\r\n"`},
		{[]conf.Step{expect("world\r\n"), send("quit"), expect("world")}, `timed out after LIMIT waiting for "world" after "QUIT"`}, // not what came before it
		{[]conf.Step{matches("^250")}, `timed out after LIMIT waiting for a match of "^250" after "220 hello world\r\n"`},
	} {
		p := newProber(t, target, conf.CheckSendExpect, func(h *conf.HealthCheck) { h.Steps = test.steps })
		if test.want == "" {
			p.wantOK("")
			continue
		}
		p.h.Timeout = scaled(300 * time.Millisecond)
		p.wantFailure(test.want)
	}
}

func TestSendExpectFailures(t *testing.T) {
	steps := func(h *conf.HealthCheck) { h.Steps = []conf.Step{expect("+OK")} }
	closes := serve(t, func(c net.Conn) { io.WriteString(c, "-ERR out of order\r\n") })
	newProber(t, closes, conf.CheckSendExpect, steps).
		wantFailure(`waiting for "+OK" after "-ERR out of order\r\n": the server closed the connection`)
	talks := serve(t, func(c net.Conn) {
		io.WriteString(c, strings.Repeat("x", maxBytes))
		silent(c)
	})
	newProber(t, talks, conf.CheckSendExpect, steps).wantFailure(`the first 64 KiB are without "+OK"`)
	// What it wants may end at the last of them.
	last := serve(t, func(c net.Conn) {
		io.WriteString(c, strings.Repeat("x", maxBytes-3)+"+OK")
		silent(c)
	})
	newProber(t, last, conf.CheckSendExpect, steps).wantOK("")
}

// pieces is a connection on which bytes come as they are cut.
type pieces struct {
	net.Conn
	text []byte
	cut  []byte // sizes, again and again
	n    int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.text) == 0 {
		return 0, io.EOF
	}
	size := 1 + int(p.cut[p.n%len(p.cut)])
	p.n++
	n := copy(b, p.text[:min(size, len(p.text))])
	p.text = p.text[n:]
	return n, nil
}

// Steps that only expect find what strings.Cut finds in the whole text, however
// it comes.
func FuzzSteps(f *testing.F) {
	f.Add([]byte("220 hello\r\nworld"), "220", "world", []byte{1, 3})
	f.Add([]byte("aaab"), "aa", "ab", []byte{0})
	f.Add([]byte(""), "", "x", []byte{9})
	f.Fuzz(func(t *testing.T, text []byte, first, second string, cut []byte) {
		if len(cut) == 0 || len(text) > maxBytes || first == "" || second == "" {
			return
		}
		_, rest, found := strings.Cut(string(text), first)
		if found {
			_, _, found = strings.Cut(rest, second)
		}
		err := takeSteps([]conf.Step{expect(first), expect(second)}, &pieces{text: text, cut: cut}, 1)
		if (err == nil) != found {
			t.Errorf("%q, then %q, in %q: %v", first, second, text, err)
		}
	})
}
