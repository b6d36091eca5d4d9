package accesslog

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/internal/sys"
	"github.com/weirlb/weir/stream/stats"
)

func endpoint(s string) sys.Endpoint {
	var sa sys.Sockaddr
	sa.SetInet(netip.MustParseAddrPort(s))
	return sa.Endpoint()
}

func sample() Record {
	start := clock.Now()
	return Record{
		Listener: "orders", Upstream: "db", UpstreamAddr: "10.0.0.1:5432, [::1]:5432", Connection: 7,
		Client: endpoint("192.0.2.7:40000"), Server: endpoint("[2001:db8::1]:5432"),
		Start: start, End: start.Add(1500 * time.Millisecond), Reason: stats.ClientClosed, Tries: 2,
		ConnectTime: 12 * time.Millisecond, FirstByteTime: -1, UpstreamTime: 1400 * time.Millisecond,
		Received: 10, Sent: 20, UpstreamSent: 9, UpstreamReceived: 21,
	}
}

// lines runs records through a writer and returns what it wrote.
func lines(t *testing.T, c conf.Log, records ...Record) string {
	t.Helper()
	var out bytes.Buffer
	w := start(&c, &out, "", 1, slog.New(slog.DiscardHandler))
	for i := range records {
		w.Ring(0).Put(&records[i])
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestEveryVariableIsWritten(t *testing.T) {
	c := conf.Log{Format: conf.JSON, Fields: conf.LogVariables()}
	var got map[string]any
	if err := json.Unmarshal([]byte(lines(t, c, sample())), &got); err != nil {
		t.Fatal(err)
	}
	hostname, _ := os.Hostname()
	want := map[conf.Variable]any{
		conf.VarListener: "orders", conf.VarProtocol: "tcp", conf.VarConnection: 7.0, conf.VarRemoteAddr: "192.0.2.7",
		conf.VarRemotePort: 40000.0, conf.VarBinaryRemoteAddr: "c0000207", conf.VarServerAddr: "2001:db8::1",
		conf.VarServerPort: 5432.0, conf.VarHostname: hostname, conf.VarPid: float64(os.Getpid()), conf.VarStatus: 200.0,
		conf.VarCloseReason: "client_closed", conf.VarTries: 2.0, conf.VarBytesReceived: 10.0, conf.VarBytesSent: 20.0,
		conf.VarSessionTime: 1.5, conf.VarUpstream: "db", conf.VarUpstreamAddr: "10.0.0.1:5432, [::1]:5432",
		conf.VarUpstreamConnectTime: 0.012, conf.VarUpstreamFirstByteTime: nil, conf.VarUpstreamSessionTime: 1.4,
		conf.VarUpstreamBytesSent: 9.0, conf.VarUpstreamBytesReceived: 21.0,
	}
	for _, v := range conf.LogVariables() {
		value, ok := got[string(v)]
		if !ok {
			t.Errorf("%s is missing", v)
		}
		if v == conf.VarTime {
			at, err := time.Parse("2006-01-02T15:04:05.000Z07:00", value.(string))
			if err != nil || time.Since(at).Abs() > time.Minute {
				t.Errorf("time is %v (%v)", value, err)
			}
			continue
		}
		if value != want[v] {
			t.Errorf("%s is %v, want %v", v, value, want[v])
		}
	}
}

func TestTextQuotesAndMarksWhatIsAbsent(t *testing.T) {
	c := conf.Log{Fields: []conf.Variable{conf.VarListener, conf.VarUpstreamAddr, conf.VarUpstreamFirstByteTime, conf.VarRemoteAddr, conf.VarRemotePort}}
	unixClient := sample()
	unixClient.Client, unixClient.UpstreamAddr = sys.Endpoint{}, ""
	var sa sys.Sockaddr
	sa.SetUnix("/x")
	unixClient.Client = sa.Endpoint()
	got := lines(t, c, sample(), unixClient)
	want := `listener=orders upstream_addr="10.0.0.1:5432, [::1]:5432" upstream_first_byte_time=- remote_addr=192.0.2.7 remote_port=40000` + "\n" +
		`listener=orders upstream_addr=- upstream_first_byte_time=- remote_addr=unix: remote_port=-` + "\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// stuck is a disk that does not answer.
type stuck struct{ free chan struct{} }

func (s stuck) Write(p []byte) (int, error) { <-s.free; return len(p), nil }

func TestStuckDiskLosesLinesAndTellsHowMany(t *testing.T) {
	var logged bytes.Buffer
	out := stuck{make(chan struct{})}
	c := conf.Log{Fields: conf.DefaultLogFields()}
	w := start(&c, out, "", 1, slog.New(slog.NewTextHandler(&logged, nil)))
	r, ring := sample(), w.Ring(0)
	for range 3 * RingRecords { // must not wait
		ring.Put(&r)
	}
	if lost := w.Lost(); lost < RingRecords || lost > 2*RingRecords {
		t.Errorf("%d lines lost of %d", lost, 3*RingRecords)
	}
	close(out.free)
	w.Close()
	if !strings.Contains(logged.String(), "access log lost lines") {
		t.Errorf("nobody was told; the log holds %q", logged.String())
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestFailedWritesAreCountedAndReported(t *testing.T) {
	var logged bytes.Buffer
	c := conf.Log{Fields: conf.DefaultLogFields()}
	w := start(&c, failing{}, "", 1, slog.New(slog.NewTextHandler(&logged, nil)))
	r := sample()
	w.Ring(0).Put(&r)
	w.Close()
	if w.Lost() != 1 || !strings.Contains(logged.String(), "no space left") {
		t.Errorf("%d lost; the log holds %q", w.Lost(), logged.String())
	}
}

func TestReopenFollowsARotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	w, err := Open(&conf.Log{Access: path, Fields: []conf.Variable{conf.VarListener}}, 1, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	r := sample()
	w.Ring(0).Put(&r)
	has := func(path string) func() bool {
		return func() bool { b, _ := os.ReadFile(path); return string(b) == "listener=orders\n" }
	}
	eventually(t, "the first line", has(path))
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := w.Reopen(); err != nil {
		t.Fatal(err)
	}
	w.Ring(0).Put(&r)
	eventually(t, "the line in the new file", has(path))
	if !has(path + ".1")() {
		t.Error("the old file changed")
	}
	w.Close()
}

func TestEveryRingIsRead(t *testing.T) {
	const workers, each = 4, 20_000
	var out countingWriter
	c := conf.Log{Fields: conf.DefaultLogFields()}
	w := start(&c, &out, "", workers, slog.New(slog.DiscardHandler))
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			r := sample()
			for range each {
				w.Ring(i).Put(&r)
			}
		})
	}
	wg.Wait()
	w.Close()
	if got := out.lines + int(w.Lost()); got != workers*each {
		t.Errorf("%d lines written and %d lost, want %d together", out.lines, w.Lost(), workers*each)
	}
}

type countingWriter struct{ lines int }

func (c *countingWriter) Write(p []byte) (int, error) {
	c.lines += bytes.Count(p, []byte("\n"))
	return len(p), nil
}

func TestPutAllocatesNothing(t *testing.T) {
	c := conf.Log{Fields: conf.DefaultLogFields()}
	w := start(&c, io.Discard, "", 1, slog.New(slog.DiscardHandler))
	defer w.Close()
	r := sample()
	ring := w.Ring(0)
	if n := testing.AllocsPerRun(1000, func() { ring.Put(&r) }); n > 0.5 { // the writer's goroutine counts too
		t.Errorf("%v allocations", n)
	}
}

func TestOffIsNil(t *testing.T) {
	w, err := Open(&conf.Log{Access: conf.AccessOff}, 1, nil)
	if w != nil || err != nil || w.Ring(0) != nil || w.Wants(conf.VarTime) || w.Reopen() != nil || w.Close() != nil || w.Lost() != 0 {
		t.Error("an access log that is off must do nothing")
	}
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); !f(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not seen in time: %s", what)
		}
	}
}
