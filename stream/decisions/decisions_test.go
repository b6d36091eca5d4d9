package decisions

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/netip"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/balance"
	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/internal/sys"
	"github.com/weirlb/weir/stream/upstream"
)

// now is when everything in these tests happens.
const now = clock.Base + clock.Time(12250*time.Millisecond)

// story returns four records: a pick, its failure, the failure of the retry,
// and a session that finds nobody.
func story(t *testing.T) []Record {
	t.Helper()
	u := conf.NewUpstream("orders")
	for i, name := range []string{"a", "b"} {
		s := conf.NewServer(conf.Address{Host: "10.0.0." + string(rune('1'+i)), Port: 5432})
		s.Name = name
		u.Servers = append(u.Servers, s)
	}
	u.Servers[0].Weight, u.Servers[0].MaxFails = 10, 2
	peers, err := upstream.Resolve(t.Context(), &u, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	g, err := upstream.NewGroup(&u, peers, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	var sa sys.Sockaddr
	sa.SetInet(netip.MustParseAddrPort("192.0.2.7:4711"))
	session := Record{At: now, Listener: "l", Upstream: "orders", Session: 17, Client: sa.Endpoint(), Attempt: 1, Timeout: 3 * time.Second}

	var a upstream.Attempts
	g.Begin(&a, upstream.Limits{}, now)
	pick, first, second, nobody := session, session, session, session
	_, pick.Decision = g.Explain(&a, now)
	first.Failure, first.Cause = g.ExplainFailure(peers[0], upstream.Failed, upstream.Took{}, now), Cause(syscall.ECONNREFUSED)
	g.Pick(&a, now)
	second.Failure, second.Cause, second.Attempt = g.ExplainFailure(peers[1], upstream.Failed, upstream.Took{}, now), TimedOut, 2

	g.SetAdmin(peers[0], balance.Down, "test", clock.Now())
	g.Begin(&a, upstream.Limits{}, now)
	sa.SetUnix("/x")
	nobody.Decision, nobody.Session, nobody.Client = g.Inspect(&a, now), 18, sa.Endpoint()
	return []Record{pick, first, second, nobody}
}

// handler returns a handler like that of the process's log, at the level of
// errors only: a decision is written all the same.
func handler(f conf.Format, out *bytes.Buffer) slog.Handler {
	opt := &slog.HandlerOptions{Level: slog.LevelError, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey && !a.Value.Time().Equal(now.Wall()) {
			return slog.String(slog.TimeKey, "not the session's "+a.Value.String())
		} else if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}
	if f == conf.JSON {
		return slog.NewJSONHandler(out, opt)
	}
	return slog.NewTextHandler(out, opt)
}

func written(t *testing.T, f conf.Format) string {
	t.Helper()
	var out bytes.Buffer
	w := Open(&conf.Log{Decisions: conf.DecisionsAll, Format: f}, slog.New(handler(f, &out)))
	for _, r := range story(t) {
		w.Put(r)
	}
	w.Close()
	return out.String()
}

// until is when b, which failed at now, is tried again: the 12th second of the
// clock and fail_timeout and one more.
var until = (clock.Base + clock.Time(23*time.Second)).Wall()

func TestTextSaysItInTheSentence(t *testing.T) {
	hour := until.Add(time.Second - 1).Format("15:04:05")
	want := `level=INFO msg="picked a by current weight: a 10, b 1" listener=l upstream=orders session=17 client=192.0.2.7:4711 attempt=1
level=WARN msg="connecting to a (10.0.0.1:5432) failed: connection refused; after failure 1 of 2 it stays available; its effective weight falls from 10 to 5" listener=l upstream=orders session=17 client=192.0.2.7:4711 attempt=1
level=WARN msg="connecting to b (10.0.0.2:5432) failed: no answer within 3s (connect_timeout); after failure 1 of 1 it is unavailable until ` + hour + `; its effective weight falls from 1 to 0" listener=l upstream=orders session=17 client=192.0.2.7:4711 attempt=2
level=WARN msg="no peer is eligible: a (down), b (unavailable until ` + hour + ` after failure 1 of 1)" listener=l upstream=orders session=18 client=unix: attempt=1
`
	if got := written(t, conf.Text); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestJSONHoldsTheFiguresToo(t *testing.T) {
	instant := until.Format("2006-01-02T15:04:05.000Z07:00")
	want := []string{
		`{"level":"INFO","listener":"l","upstream":"orders","session":17,"client":"192.0.2.7:4711","attempt":1,
		  "peer":"a","method":"round_robin","by":"current weight","candidates":[
		   {"peer":"a","address":"10.0.0.1:5432","weight":10,"effective":10,"current_before":0,"current_after":-1,"conns":0,"max_conns":0,"fails":0,"max_fails":2},
		   {"peer":"b","address":"10.0.0.2:5432","weight":1,"effective":1,"current_before":0,"current_after":1,"conns":0,"max_conns":0,"fails":0,"max_fails":1}]}`,
		`{"level":"WARN","listener":"l","upstream":"orders","session":17,"client":"192.0.2.7:4711","attempt":1,
		  "peer":"a","address":"10.0.0.1:5432","cause":"connection refused","charged":true,"fails":1,"max_fails":2,"weight":10,"effective_before":10,"effective_after":5}`,
		`{"level":"WARN","listener":"l","upstream":"orders","session":17,"client":"192.0.2.7:4711","attempt":2,
		  "peer":"b","address":"10.0.0.2:5432","cause":"no answer within 3s (connect_timeout)","charged":true,"fails":1,"max_fails":1,"weight":1,"effective_before":1,"effective_after":0,"unavailable_until":"` + instant + `"}`,
		`{"level":"WARN","listener":"l","upstream":"orders","session":18,"client":"unix:","attempt":1,
		  "peer":null,"method":"round_robin","candidates":[
		   {"peer":"a","address":"10.0.0.1:5432","weight":10,"effective":5,"current_before":-1,"current_after":-1,"conns":0,"max_conns":0,"fails":1,"max_fails":2,"left_out":"down"},
		   {"peer":"b","address":"10.0.0.2:5432","weight":1,"effective":0,"current_before":1,"current_after":1,"conns":0,"max_conns":0,"fails":1,"max_fails":1,"left_out":"unavailable","unavailable_until":"` + instant + `"}]}`,
	}
	got := strings.Split(strings.TrimSpace(written(t, conf.JSON)), "\n")
	if len(got) != len(want) {
		t.Fatalf("%d lines, want %d", len(got), len(want))
	}
	for i := range want {
		g, w := decode(t, got[i]), decode(t, want[i])
		if msg, _ := g["msg"].(string); msg == "" {
			t.Errorf("no sentence in %s", got[i])
		}
		delete(g, "msg")
		if !reflect.DeepEqual(g, w) {
			t.Errorf("got\n%s\nwant the figures\n%s", got[i], want[i])
		}
	}
}

func decode(t *testing.T, line string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		t.Fatalf("%v in %s", err, line)
	}
	return m
}

// What only some methods have: scores, ties, keys, probes and a fallback.
func TestJSONOfOtherMethods(t *testing.T) {
	u := conf.NewUpstream("u")
	for _, name := range []string{"a", "b"} {
		s := conf.NewServer(conf.Address{Host: "127.0.0.1", Port: 1})
		s.Name, s.Backup = name, name == "b"
		u.Servers = append(u.Servers, s)
	}
	peers, err := upstream.Resolve(t.Context(), &u, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, b := peers[0], peers[1]
	d := &upstream.Decision{
		Method: conf.Hash, Peer: a, By: "hash of the key", Tied: 2, Fallback: "reasons", Key: "\x01",
		Candidates: []upstream.Candidate{{Peer: a, Candidate: balance.Candidate{Scored: true}}, {Peer: b}},
		Probes:     []upstream.Probe{{Peer: a, Probe: balance.Probe{At: 7, Hash: 9}}, {Peer: b, Probe: balance.Probe{Left: balance.LeftFull}}},
	}
	var out bytes.Buffer
	w := Open(&conf.Log{Decisions: conf.DecisionsFailures, Format: conf.JSON}, slog.New(slog.NewJSONHandler(&out, nil)))
	w.Put(Record{At: now, Decision: d, Attempt: 1}) // not in such a log
	w.Put(Record{At: now, Decision: d, Attempt: 2})
	w.Close()
	got := decode(t, out.String())
	want := decode(t, `{"peer":"a","method":"hash","by":"current weight","tied":2,"fallback":"reasons","key":"0x01",
		"probes":[{"at":7,"hash":9,"peer":"a"},{"at":0,"peer":"b","left_out":"full"}]}`)
	for k, v := range want {
		if !reflect.DeepEqual(got[k], v) {
			t.Errorf("%s is %v, want %v", k, got[k], v)
		}
	}
	first := got["candidates"].([]any)[0].(map[string]any)
	second := got["candidates"].([]any)[1].(map[string]any)
	if _, scored := second["score"]; first["score"] != 0.0 || scored || second["backup"] != true {
		t.Errorf("the candidates are %v", got["candidates"])
	}
}

func TestCauses(t *testing.T) {
	for c, want := range map[Cause]string{
		Cause(syscall.EHOSTUNREACH):  "no route to host",
		Cause(syscall.EADDRNOTAVAIL): "this machine has no address or port left to connect from",
		TimedOut:                     "no answer within 250ms (connect_timeout)",
		ToItself:                     "the socket was connected to itself, as nobody listens there",
	} {
		r := Record{Cause: c, Timeout: 250 * time.Millisecond}
		if got := r.cause(); got != want {
			t.Errorf("%d is %q, want %q", c, got, want)
		}
	}
}

func TestFarInstantsHaveTheirDate(t *testing.T) {
	at := hour(now)
	far := now.Add(25 * time.Hour)
	if got, want := at(balance.Seconds(far.Seconds())), clock.Time(far.Seconds()*1e9).Wall().Add(time.Second-1).Format("2006-01-02 15:04:05"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// stuck is a log that does not answer until it is freed.
type stuck struct {
	free chan struct{}
	bytes.Buffer
}

func (s *stuck) Write(p []byte) (int, error) { <-s.free; return s.Buffer.Write(p) }

func TestStuckLogLosesLinesAndTellsHowMany(t *testing.T) {
	out := &stuck{free: make(chan struct{})}
	w := Open(&conf.Log{Decisions: conf.DecisionsAll}, slog.New(slog.NewTextHandler(out, nil)))
	r := story(t)[0]
	for range 3 * Waiting { // must not wait
		w.Put(r)
	}
	lost := w.Lost()
	if lost < 2*Waiting-1 || lost > 2*Waiting {
		t.Errorf("%d lines lost of %d", lost, 3*Waiting)
	}
	close(out.free)
	w.Close()
	lines := strings.Count(out.String(), "picked a")
	if lines+int(lost) != 3*Waiting {
		t.Errorf("%d lines written and %d lost, want %d together", lines, lost, 3*Waiting)
	}
	if !strings.Contains(out.String(), `level=WARN msg="decision log lost lines"`) {
		t.Error("nobody was told")
	}
}

func TestCloseGivesUpOnAStuckLog(t *testing.T) {
	out := &stuck{free: make(chan struct{})}
	defer close(out.free)
	w := Open(&conf.Log{Decisions: conf.DecisionsAll}, slog.New(slog.NewTextHandler(out, nil)))
	w.Put(story(t)[0])
	begin := time.Now()
	w.Close()
	if took := time.Since(begin); took < closePatience || took > 5*closePatience {
		t.Errorf("Close took %v, want %v", took, closePatience)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestFailedWritesCount(t *testing.T) {
	w := Open(&conf.Log{Decisions: conf.DecisionsAll}, slog.New(slog.NewTextHandler(failing{}, nil)))
	for _, r := range story(t) {
		w.Put(r)
	}
	w.Close()
	if w.Lost() < 4 {
		t.Errorf("%d lines lost, want all 4", w.Lost())
	}
}

func TestOffIsNil(t *testing.T) {
	w := Open(&conf.Log{}, nil)
	if w != nil || w.Lost() != 0 {
		t.Error("a decision log that is off must do nothing")
	}
	w.Close()
}
