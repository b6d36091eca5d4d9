package stream_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream"
)

// A stop writes every decision that was made, and says why the dead server was
// followed by the other one. The log's level is no hindrance.
func TestDecisionsAreWritten(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := conf.Address{Host: "127.0.0.1", Port: uint16(free.Addr().(*net.TCPAddr).Port)}
	free.Close()

	cfg := conf.Default()
	cfg.Log.Access, cfg.Log.Format, cfg.Log.Decisions = conf.AccessOff, conf.JSON, conf.DecisionsAll
	u := conf.NewUpstream("u")
	for i, a := range []conf.Address{dead, serve(t, echo)} {
		s := conf.NewServer(a)
		s.Name = []string{"a", "b"}[i]
		u.Servers = append(u.Servers, s)
	}
	l := conf.NewListener("l")
	l.Listen, l.Upstream = []conf.Address{{Host: "127.0.0.1"}}, "u"
	cfg.Upstreams, cfg.Listeners = []conf.Upstream{u}, []conf.Listener{l}
	var out bytes.Buffer
	logger := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelError}))
	s, err := stream.Start(t.Context(), &cfg, stream.Options{Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	const sessions = 20
	for range sessions {
		c, err := net.Dial("tcp", s.Bound()[0].Addr.String())
		if err != nil {
			t.Fatal(err)
		}
		c.Write([]byte("x"))
		io.ReadFull(c, make([]byte, 1))
		c.Close()
	}
	stop(t, s)

	picked, failed := map[string]int{}, 0
	for text := range strings.Lines(out.String()) {
		var line struct {
			Msg, Listener, Upstream, Client, Peer, Cause string
			Session, Attempt                             int
			Candidates                                   []struct{ Peer string }
		}
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		if line.Listener != "l" || line.Upstream != "u" || line.Session == 0 || line.Attempt == 0 || !strings.HasPrefix(line.Client, "127.0.0.1:") {
			t.Errorf("the session is missing in %s", text)
		}
		if line.Cause != "" {
			failed++
			continue
		}
		picked[line.Peer]++
		if len(line.Candidates) != 2 || !strings.HasPrefix(line.Msg, "picked "+line.Peer) {
			t.Errorf("the line is %s", text)
		}
	}
	if picked["b"] != sessions || picked["a"] != failed || failed == 0 {
		t.Errorf("picked %v and %d failures in %d sessions, in\n%s", picked, failed, sessions, out.String())
	}
}
