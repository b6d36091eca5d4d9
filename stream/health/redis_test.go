package health

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
)

// fakeRedis answers commands by what they begin with.
func fakeRedis(answers map[string]string) func(net.Conn) {
	return func(c net.Conn) {
		r := bufio.NewReader(c)
		for {
			p := respReader{r, maxBytes}
			v, err := p.value(0)
			list, ok := v.([]any)
			if err != nil || !ok {
				return
			}
			command := strings.Trim(fmt.Sprint(list), "[]")
			answer := "-ERR unknown command '" + command + "'\r\n"
			for begin, text := range answers {
				if strings.HasPrefix(command, begin) {
					answer = text
				}
			}
			io.WriteString(c, answer)
		}
	}
}

func bulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

func TestRedis(t *testing.T) {
	const (
		pong    = "+PONG\r\n"
		primary = "*3\r\n$6\r\nmaster\r\n:3129659\r\n*1\r\n*3\r\n$9\r\n127.0.0.1\r\n$4\r\n9001\r\n$7\r\n3129242\r\n"
		replica = "*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:9000\r\n$9\r\nconnected\r\n:3167038\r\n"
		loading = "-LOADING Redis is loading the dataset in memory\r\n"
	)
	up := bulk("# Replication\r\nrole:slave\r\nmaster_link_status:up\r\nmaster_last_io_seconds_ago:3\r\n")
	role := func(role conf.Role, maxLag time.Duration) func(*conf.HealthCheck) {
		return func(h *conf.HealthCheck) { h.Role, h.MaxLag = role, maxLag }
	}
	for _, test := range []struct {
		name    string
		answers map[string]string
		edit    func(*conf.HealthCheck)
		role    conf.Role
		lag     time.Duration
		note    string
		want    string // the cause of a failure
	}{
		{"alive", map[string]string{"PING": pong}, nil, conf.AnyRole, -1, "", ""},
		{"primary", map[string]string{"PING": pong, "ROLE": primary}, role(conf.Primary, 0), conf.Primary, -1, "ROLE is master", ""},
		{"replica", map[string]string{"PING": pong, "ROLE": replica}, role(conf.Primary, 0), conf.Replica, -1, "ROLE is slave, its link is connected", ""},
		{"late", map[string]string{"PING": pong, "ROLE": replica, "INFO replication": up}, role(conf.Replica, time.Second), conf.Replica, 3 * time.Second, "ROLE is slave, its link is connected", ""},
		{"sentinel", map[string]string{"PING": pong, "ROLE": "*2\r\n$8\r\nsentinel\r\n*0\r\n"}, role(conf.Primary, 0), conf.AnyRole, -1, "ROLE is sentinel", ""},
		{"loading", map[string]string{"PING": loading}, nil, 0, 0, "", "PING: LOADING Redis is loading the dataset in memory"},
		{"master down", map[string]string{"PING": "-MASTERDOWN Link with MASTER is down\r\n"}, nil, 0, 0, "", "PING: MASTERDOWN Link with MASTER is down"},
		{"password wanted", map[string]string{"PING": "-NOAUTH Authentication required.\r\n"}, nil, conf.AnyRole, -1, "answers, and wants a password", ""},
		{"password and role wanted", map[string]string{"PING": "-NOAUTH Authentication required.\r\n"}, role(conf.Primary, 0), 0, 0, "", "PING: NOAUTH Authentication required."},
		{"wrong password", map[string]string{"AUTH hunter2": "-WRONGPASS not hunter2\r\n"}, func(h *conf.HealthCheck) { h.Password = "hunter2" }, 0, 0, "", "AUTH: WRONGPASS not (hidden)"},
		{"no such command", map[string]string{}, func(h *conf.HealthCheck) { h.Password = "hunter2" }, 0, 0, "", "AUTH: ERR unknown command 'AUTH (hidden)'"},
		{"user", map[string]string{"AUTH weir hunter2": "+OK\r\n", "PING": pong}, func(h *conf.HealthCheck) { h.User, h.Password = "weir", "hunter2" }, conf.AnyRole, -1, "", ""},
		{"user without a password", map[string]string{"AUTH weir ": "+OK\r\n", "PING": pong}, func(h *conf.HealthCheck) { h.User = "weir" }, conf.AnyRole, -1, "", ""},
		{"no such user", map[string]string{"AUTH weir ": "-WRONGPASS invalid username-password pair or user is disabled.\r\n", "PING": pong}, func(h *conf.HealthCheck) { h.User = "weir" }, 0, 0, "", "AUTH: WRONGPASS invalid username-password pair or user is disabled."},
		{"not redis", map[string]string{"PING": "220 hello\r\n"}, nil, 0, 0, "", "waiting for the reply to PING: it is not Redis's protocol"},
		{"huge", map[string]string{"PING": "$2147483647\r\n"}, nil, 0, 0, "", "waiting for the reply to PING: the reply is too large"},
		{"many", map[string]string{"PING": "*2147483647\r\n"}, nil, 0, 0, "", "waiting for the reply to PING: the reply is too large"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newProber(t, serve(t, fakeRedis(test.answers)), conf.CheckRedis, test.edit)
			if test.want != "" {
				p.wantFailure(test.want)
				return
			}
			for range 3 {
				if r := p.wantOK(test.note); r.role != test.role || r.lag != test.lag {
					t.Errorf("read %v and lag %v, want %v and %v", r.role, r.lag, test.role, test.lag)
				}
			}
		})
	}
}

func TestRedisLag(t *testing.T) {
	for info, want := range map[string]time.Duration{
		"role:slave\r\nmaster_link_status:up\r\nmaster_last_io_seconds_ago:7\r\n":                                      7 * time.Second,
		"master_link_status:down\r\nmaster_last_io_seconds_ago:-1\r\nmaster_link_down_since_seconds:90\r\n":            90 * time.Second,
		"master_link_status:down\r\nmaster_last_io_seconds_ago:-1\r\nmaster_link_down_since_seconds:-1\r\n":            -1, // it never had one
		"master_link_status:up\r\nmaster_last_io_seconds_ago:99999999999999999999\r\nmaster_link_down_since_seconds:1": -1,
		"":  -1,
		":": -1,
	} {
		if got := redisLag(info); got != want {
			t.Errorf("%q: %v, want %v", info, got, want)
		}
	}
}

// A connection is kept, and one that the server has closed is no failure.
func TestKeptConnection(t *testing.T) {
	var open, broken int
	serving := make(chan net.Conn, 10)
	target := serve(t, func(c net.Conn) {
		serving <- c
		fakeRedis(map[string]string{"PING": "+PONG\r\n"})(c)
	})
	p := newProber(t, target, conf.CheckRedis, nil)
	for i := range 10 {
		p.wantOK("")
		select {
		case c := <-serving:
			open++
			if i == 4 {
				t.Error("a new connection though the old one was in order")
			}
			if i%5 == 0 {
				broken++
				c.Close()
				// The next check must find it closed.
				eventually(t, time.Second, "the close has come", func() bool {
					at := p.probe.(*keeper).link
					at.SetReadDeadline(time.Now().Add(time.Millisecond))
					_, err := at.Read(make([]byte, 1))
					at.SetReadDeadline(time.Time{})
					return err == io.EOF
				})
			}
		default:
		}
	}
	if open != 1+broken {
		t.Errorf("%d connections in ten checks, want one and %d after broken ones", open, broken)
	}
}

// With TLS it is the same.
func TestRedisTLS(t *testing.T) {
	config, ca := testTLS(t)
	ends := make(chan error, 1)
	target := serve(t, func(c net.Conn) {
		s := tls.Server(c, config)
		fakeRedis(map[string]string{"PING": "+PONG\r\n"})(s)
		_, err := s.Read(make([]byte, 1))
		ends <- err
	})
	edit := func(h *conf.HealthCheck) { h.TLS = &conf.CheckTLSOptions{CAFile: ca, Verify: true} }
	p := newProber(t, target, conf.CheckRedis, edit)
	p.wantOK("")
	p.wantOK("")
	p.end(true)
	if err := <-ends; err != io.EOF {
		t.Errorf("the server's connection ends with %v, want a close_notify", err)
	}
}

// The parser takes no more than it may, and what it takes is written as it was.
func FuzzRESP(f *testing.F) {
	f.Add("+PONG\r\n")
	f.Add("*3\r\n$6\r\nmaster\r\n:12\r\n*1\r\n*2\r\n$1\r\nx\r\n$-1\r\n")
	f.Add("-NOAUTH x\r\n")
	f.Add("*-1\r\n")
	f.Add("$1000000\r\n")
	f.Add("*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		const limit = 100
		p := respReader{bufio.NewReader(strings.NewReader(text)), limit}
		v, err := p.value(0)
		if p.left < 0 {
			t.Fatalf("%q: %d bytes over", text, -p.left)
		}
		if err != nil {
			return
		}
		p = respReader{bufio.NewReader(strings.NewReader(encodeRESP(v))), limit}
		again, err := p.value(0)
		if err != nil && !errors.Is(err, errTooLarge) || err == nil && fmt.Sprintf("%#v", again) != fmt.Sprintf("%#v", v) {
			t.Errorf("%q is read as %#v, which is written and read again as %#v, %v", text, v, again, err)
		}
	})
}

func encodeRESP(v any) string {
	switch v := v.(type) {
	case string:
		return bulk(v)
	case redisError:
		return "-" + string(v) + "\r\n"
	case []any:
		var b strings.Builder
		fmt.Fprintf(&b, "*%d\r\n", len(v))
		for _, e := range v {
			b.WriteString(encodeRESP(e))
		}
		return b.String()
	}
	return "$-1\r\n"
}

// startRedis runs a server and returns its address.
func startRedis(t *testing.T, args ...string) Target {
	t.Helper()
	port := freePort(t)
	cmd := exec.Command(need(t, "redis-server", "redis-server"), append([]string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"}, args...)...)
	cmd.Dir = t.TempDir()
	startProgram(t, cmd)
	waitListening(t, port)
	return loopback(port)
}

// A primary and its replica, a promotion, and a primary that is gone.
func TestRealRedis(t *testing.T) {
	password := func(h *conf.HealthCheck) { h.Password = "hunter2" }
	primary := startRedis(t, "--requirepass", "hunter2", "--repl-ping-replica-period", "1")
	_, port, _ := net.SplitHostPort(primary.Addr.String())
	replica := startRedis(t, "--requirepass", "hunter2", "--masterauth", "hunter2", "--replicaof", "127.0.0.1 "+port)
	newProber(t, primary, conf.CheckRedis, nil).wantOK("answers, and wants a password")
	newProber(t, primary, conf.CheckRedis, func(h *conf.HealthCheck) { h.Password = "hunter3" }).
		wantFailure("AUTH: WRONGPASS invalid username-password pair or user is disabled.")
	newProber(t, primary, conf.CheckRedis, password).wantOK("")
	a := newProber(t, primary, conf.CheckRedis, func(h *conf.HealthCheck) { password(h); h.Role = conf.Primary })
	b := newProber(t, replica, conf.CheckRedis, func(h *conf.HealthCheck) {
		password(h)
		h.Role, h.MaxLag = conf.Replica, 3*time.Second
	})
	if r := a.wantOK("ROLE is master"); r.role != conf.Primary {
		t.Errorf("the primary is read as %+v", r)
	}
	eventually(t, 20*time.Second, "the replica is in time", func() bool {
		r, _ := b.once()
		return r.role == conf.Replica && r.lag >= 0 && r.lag < 3*time.Second
	})
	b.wantOK("ROLE is slave, its link is connected")

	do := func(p *prober, args ...string) {
		t.Helper()
		if _, err := p.probe.(*keeper).session.(*redisSession).do(args...); err != nil {
			t.Fatal(err)
		}
	}
	// A user without a password, where the default one needs one.
	do(a, "ACL", "SETUSER", "weir", "on", "nopass", "+ping", "+role")
	c := newProber(t, primary, conf.CheckRedis, func(h *conf.HealthCheck) { h.User, h.Role = "weir", conf.Primary })
	c.wantOK("ROLE is master")

	// The primary falls silent: its replica counts the time.
	do(b, "REPLICAOF", "127.0.0.1", strconv.Itoa(int(nobody(t).Addr.Port())))
	eventually(t, 20*time.Second, "the replica counts from then on", func() bool {
		r, _ := b.once()
		return r.role == conf.Replica && r.lag >= 2*time.Second
	})
	// It is promoted.
	do(b, "REPLICAOF", "NO", "ONE")
	if r := b.wantOK("ROLE is master"); r.role != conf.Primary || r.lag != -1 {
		t.Errorf("after its promotion the replica is read as %+v", r)
	}
}
