package discovery

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirlb/weir/conf"
)

func TestParseServers(t *testing.T) {
	got, err := parseServers([]byte(`{"servers": [
		{"address": "10.0.0.11:5432", "name": "a", "weight": 10, "max_fails": 2, "fail_timeout": "20s", "max_conns": 200, "slow_start": "30s", "backup": true, "down": true},
		{"address": "[fd00::1]:1", "max_fails": 0, "fail_timeout": "0s", "slow_start": "off"},
		{"address": "unix:/run/db.sock"}
	]}`))
	if err != nil {
		t.Fatal(err)
	}
	a := server("10.0.0.11:5432")
	a.Name, a.Weight, a.MaxFails, a.FailTimeout, a.MaxConns, a.SlowStart, a.Backup, a.Down = "a", 10, 2, 20*time.Second, 200, 30*time.Second, true, true
	b := server("[fd00::1]:1")
	b.MaxFails, b.FailTimeout = 0, 0
	if diff := cmp.Diff([]conf.Server{a, b, server("unix:/run/db.sock")}, got); diff != "" {
		t.Error(diff)
	}
	if got, err := parseServers([]byte(`{"servers":[]}`)); err != nil || len(got) != 0 {
		t.Errorf("without servers: %v, %v", got, err)
	}
}

func TestParseServersMistakes(t *testing.T) {
	one := func(entry string) string {
		return `{"servers":[{"address":"10.0.0.1:1"},{"address":"10.0.0.2:2",` + entry + `}]}`
	}
	for _, c := range []struct{ data, want string }{
		{"{\"servers\":[\n{\"address\":\n", "line 3: unexpected end"},
		{"{\"servers\":[]}\n{}", "line 2: invalid character"},
		{`[]`, "is no object"},
		{`{}`, `there is no "servers"`},
		{`{"servers":null}`, "servers: takes a list"},
		{`{"Servers":[]}`, `do you mean "servers"`},
		{`{"servers":[],"version":1}`, `there is no "version"`},
		{`{"servers":["10.0.0.1:1"]}`, `server 1: is no object, but "10.0.0.1:1"`},
		{`{"servers":[{"name":"a"}]}`, `server 1 ("a"): it has no address`},
		{`{"servers":[{"address":"db.example:5432"}]}`, `write server "db.example:5432" { resolve = true }`},
		{`{"servers":[{"address":"10.0.0.1"}]}`, `server 1 ("10.0.0.1"): address: "10.0.0.1" has no port`},
		{one(`"wieght":1`), `server 2 ("10.0.0.2:2"): there is no "wieght" here: do you mean "weight"?`},
		{one(`"Weight":1`), `do you mean "weight"?`},
		{one(`"weight":1,"weight":2`), `has "weight" twice`},
		{one(`"weight":0`), "weight: takes a whole number from 1 to 65535, not 0"},
		{one(`"weight":65536`), "from 1 to 65535"},
		{one(`"weight":1.5`), "not 1.5"},
		{one(`"weight":"1"`), `not "1"`},
		{one(`"weight":null`), "not null"},
		{one(`"max_fails":-1`), "max_fails: takes a whole number from 0"},
		{one(`"max_conns":2147483648`), "max_conns: takes"},
		{one(`"fail_timeout":10`), "fail_timeout: takes a text"},
		{one(`"fail_timeout":"10"`), `"10" has no unit`},
		{one(`"fail_timeout":"1500ms"`), "takes whole seconds"},
		{one(`"slow_start":"soon"`), `"soon" is not a duration`},
		{one(`"backup":"true"`), "backup: takes true or false"},
		{one(`"name":""`), "name: it is empty"},
		{one(`"name":"a b"`), "have no spaces"},
		{one(`"name":"` + strings.Repeat("a", 256) + `"`), "256 bytes"},
		{one(`"name":"10.0.0.1:1"`), `server 2 ("10.0.0.1:1"): has the name of server 1`},
		{`{"servers":[{},{},{},{},{}]}`, "server 1: it has no address"},
		{`{"servers":[{},{},{},{},{}]}`, "; and 2 more"},
		{`{"servers":[` + strings.Repeat(`{},`, 10000) + `{}]}`, "it has 10001 servers, the limit is 10000"},
	} {
		if got, err := parseServers([]byte(c.data)); err == nil || !strings.Contains(err.Error(), c.want) || got != nil {
			t.Errorf("%.80s: %v, want an error with %s", c.data, err, c.want)
		}
	}
}

// peers writes a server_file with these addresses.
func peers(addrs ...string) string {
	var list []string
	for _, a := range addrs {
		list = append(list, fmt.Sprintf(`{"address":%q}`, a))
	}
	return `{"servers":[` + strings.Join(list, ",") + `]}`
}

// events is a Directory's options by which changes of files are seen by their
// events alone.
var events = Options{Poll: time.Hour}

func TestFollowsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "peers.json")
	write(t, path, peers("10.0.0.1:1"))
	d, r := start(t, events)
	c := config(conf.Resolver{}, server("10.0.0.9:9"))
	c.Upstreams[0].ServerFile = path
	wantServers(t, adopt(t, d, c), "10.0.0.9:9", "10.0.0.1:1")

	write(t, path, peers("10.0.0.2:1", "10.0.0.1:1")) // renamed over
	become(t, d, c, "10.0.0.9:9", "10.0.0.2:1", "10.0.0.1:1")
	if err := os.WriteFile(path, []byte(peers("10.0.0.3:1")), 0o644); err != nil { // in place
		t.Fatal(err)
	}
	become(t, d, c, "10.0.0.9:9", "10.0.0.3:1")
	await(t, "it is told", func() bool { return r.calls("db") > 0 })

	// The order is the file's: methods such as first go by it.
	write(t, path, peers("10.0.0.4:1", "10.0.0.3:1"))
	become(t, d, c, "10.0.0.9:9", "10.0.0.4:1", "10.0.0.3:1")
	write(t, path, peers("10.0.0.3:1", "10.0.0.4:1"))
	become(t, d, c, "10.0.0.9:9", "10.0.0.3:1", "10.0.0.4:1")
	write(t, path, peers())
	become(t, d, c, "10.0.0.9:9")
	if got := sourceOf(t, d); got.Kind != KindFile || got.Name != path || !got.StaleSince.IsZero() {
		t.Errorf("%+v", got)
	}
}

// The directory of a bare name is the one that the process runs in.
func TestFollowsRelativeFile(t *testing.T) {
	t.Chdir(t.TempDir())
	f := &file{path: "peers.json", poll: time.Hour}
	awake := make(chan struct{}, 100)
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { f.watch(ctx, awake) })
	defer watching.Wait()
	defer cancel()
	<-awake // the directory is watched
	write(t, "peers.json", peers())
	<-awake
	time.Sleep(3 * settleAfter)
	if n := len(awake); n > 1 {
		t.Errorf("woken %d more times by one change", n)
	}
}

// Kubernetes swaps a link in the directory; the file's own name stays a link to
// the same.
func TestFollowsConfigMap(t *testing.T) {
	dir := t.TempDir()
	version := func(n int, content string) {
		t.Helper()
		name := fmt.Sprintf("..v%d", n)
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name, "peers.json"), content)
		if err := os.Symlink(name, filepath.Join(dir, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	version(1, peers("10.0.0.1:1"))
	path := filepath.Join(dir, "peers.json")
	if err := os.Symlink("..data/peers.json", path); err != nil {
		t.Fatal(err)
	}
	d, _ := start(t, events)
	c := config(conf.Resolver{})
	c.Upstreams[0].ServerFile = path
	wantServers(t, adopt(t, d, c), "10.0.0.1:1")
	version(2, peers("10.0.0.2:1"))
	become(t, d, c, "10.0.0.2:1")
	if err := os.RemoveAll(filepath.Join(dir, "..v1")); err != nil {
		t.Fatal(err)
	}
	version(3, peers("10.0.0.3:1"))
	become(t, d, c, "10.0.0.3:1")
}

// A file behind a link into another directory has no events here.
func TestFileIsPolled(t *testing.T) {
	far := filepath.Join(t.TempDir(), "far.json")
	write(t, far, peers("10.0.0.1:1"))
	path := filepath.Join(t.TempDir(), "peers.json")
	if err := os.Symlink(far, path); err != nil {
		t.Fatal(err)
	}
	d, _ := start(t, Options{Poll: 20 * time.Millisecond})
	c := config(conf.Resolver{})
	c.Upstreams[0].ServerFile = path
	wantServers(t, adopt(t, d, c), "10.0.0.1:1")
	write(t, far, peers("10.0.0.2:1"))
	become(t, d, c, "10.0.0.2:1")
}

func TestFileDirectoryComesLater(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	path := filepath.Join(dir, "peers.json")
	d, r := start(t, Options{Poll: 50 * time.Millisecond})
	c := config(conf.Resolver{}, server("10.0.0.9:9"))
	c.Upstreams[0].ServerFile = path
	wantServers(t, adopt(t, d, c), "10.0.0.9:9")
	for _, ip := range []string{"10.0.0.1", "10.0.0.2"} { // and comes back after it went
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, path, peers(ip+":1"))
		become(t, d, c, "10.0.0.9:9", ip+":1")
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	if lines := r.lines("not known yet"); len(lines) != 1 || !strings.Contains(lines[0], "no such file") {
		t.Errorf("logged %q", lines)
	}
}

func TestWrongFileKeepsServers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "peers.json")
	write(t, path, peers("10.0.0.1:1"))
	d, r := start(t, Options{Poll: 10 * time.Millisecond})
	c := config(conf.Resolver{})
	c.Upstreams[0].ServerFile = path
	adopt(t, d, c)
	told := 0
	for _, wrong := range []struct {
		spoil func()
		want  string
	}{
		{func() { write(t, path, `{"servers":[{"address":"10.0.0.1:1","weight":0}]}`) }, "weight: takes"},
		{func() { write(t, path, `{"servers":[{"addr`) }, "unexpected end"},
		{func() { write(t, path, ``) }, "it is empty"},
		{func() { write(t, path, strings.Repeat(" ", maxFileBytes+1)) }, "more than 4 MiB"},
		{func() { os.Remove(path) }, "no such file"},
		{func() { os.Mkdir(path, 0o755) }, "no regular file"},
		{func() { os.Remove(path); mustMkfifo(t, path) }, "no regular file"},
	} {
		wrong.spoil()
		await(t, "Sources says "+wrong.want, func() bool {
			s := sourceOf(t, d)
			return strings.Contains(s.Error, wrong.want) && !s.StaleSince.IsZero()
		})
		before := sourceOf(t, d).Failures
		await(t, "the file was looked at again", func() bool { return sourceOf(t, d).Failures > before+3 })
		wantServers(t, expand(t, d, c), "10.0.0.1:1")
		lines := r.lines("not up to date")
		for i := max(told, 1); i < len(lines); i++ {
			_, before, _ := strings.Cut(lines[i-1], "msg=")
			if _, line, _ := strings.Cut(lines[i], "msg="); line == before {
				t.Errorf("logged twice: %s", line)
			}
		}
		if last := lines[len(lines)-1]; !strings.Contains(last, wrong.want) {
			t.Errorf("logged %q, want %q", last, wrong.want)
		}
		told = len(lines)
	}
	if told > 10 {
		t.Errorf("logged %d lines for seven mistakes: %q", told, r.lines("not up to date"))
	}
	os.Remove(path)
	write(t, path, peers("10.0.0.1:1"))
	await(t, "the file is fresh again", func() bool { return sourceOf(t, d).StaleSince.IsZero() })
	if got := sourceOf(t, d); got.Changes != 1 {
		t.Errorf("%+v", got)
	}
}

func mustMkfifo(t *testing.T, path string) {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o644); err != nil {
		t.Fatal(err)
	}
}

// What is accepted is in range, and means the same when it is written again.
func FuzzServers(f *testing.F) {
	f.Add([]byte(`{"servers":[{"address":"10.0.0.11:5432","name":"a","weight":10,"max_fails":2,"fail_timeout":"10s","max_conns":200,"slow_start":"30s","backup":false,"down":false}]}`))
	f.Add([]byte(`{"servers":[{"address":"[fe80::1%lo]:1","slow_start":"off","fail_timeout":"0s"},{"address":"unix:/a"}]}`))
	f.Add([]byte(`{"servers":[{"address":"db:1"},{"weight":1e3},[],null]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := parseServers(data)
		if err != nil {
			if err.Error() == "" || list != nil {
				t.Fatalf("%v with the error %q", list, err)
			}
			return
		}
		names := map[string]bool{}
		var again []map[string]any
		for _, s := range list {
			_, numeric := s.Address.IP()
			switch {
			case !numeric && !s.Address.IsUnix(), names[s.Name], s.Name == "",
				s.Weight < 1, s.Weight > conf.MaxWeight, s.MaxFails < 0, s.MaxConns < 0,
				s.FailTimeout%time.Second != 0, s.FailTimeout < 0, s.SlowStart < 0, s.Resolve, s.Service:
				t.Fatalf("took %+v", s)
			}
			names[s.Name] = true
			failTimeout := "0s"
			if s.FailTimeout > 0 {
				failTimeout = conf.FormatDuration(s.FailTimeout)
			}
			e := map[string]any{
				"address": s.Address.String(), "weight": s.Weight, "max_fails": s.MaxFails, "fail_timeout": failTimeout,
				"max_conns": s.MaxConns, "slow_start": conf.FormatDuration(s.SlowStart), "backup": s.Backup, "down": s.Down,
			}
			if s.Name != s.Address.String() {
				e["name"] = s.Name
			}
			again = append(again, e)
		}
		if again == nil {
			return
		}
		text, err := json.Marshal(map[string]any{"servers": again})
		if err != nil {
			t.Fatal(err)
		}
		back, err := parseServers(text)
		if diff := cmp.Diff(list, back); err != nil || diff != "" {
			t.Fatalf("%v\n%s", err, diff)
		}
	})
}
