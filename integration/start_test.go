package integration_test

import (
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/weirlb/weir/integration/dnstest"
)

// wantStartFailure expects that weir ends with exit code 1 and says why.
func (p *proxy) wantStartFailure(why string) {
	p.t.Helper()
	p.wantExit(10*time.Second, 1)
	if text := p.stderr.String(); strings.Count(text, why) != 1 {
		p.t.Errorf("weir said %q, want %q in it once", text, why)
	}
}

func TestStartFails(t *testing.T) {
	t.Parallel()
	taken := serve(t, echo)
	dir := tempDir(t)
	if err := os.WriteFile(dir+"/file", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	withAttr := func(where, attr string) string {
		return strings.Replace(oneServer, where, attr+"\n"+where, 1)
	}
	for _, test := range []struct {
		name, config string
		vars         vars
		why          string
	}{
		{"address in use", oneServer, vars{"listen": taken}, `listen on ` + taken + `: bind: address already in use`},
		{"bad configuration", withAttr("listen ", `idle_timeout = "0"`), nil, `Write "off"`},
		{"unknown word", withAttr("listen ", `idle_timeot = "1s"`), nil, `idle_timeot`},
		{"unknown congestion of a listener", withAttr("listen ", `congestion = "nonesuch"`), nil, `set congestion "nonesuch"`},
		{"unknown congestion of an upstream", withAttr("server ", `congestion = "nonesuch"`), nil, `set congestion "nonesuch"`},
		{"name without address", oneServer, vars{"server": "nonesuch.invalid:80"}, `resolve server "nonesuch.invalid:80" of upstream "u"`},
		{"access log in a missing directory", oneServer, vars{"access": "/nonesuch/access.log"}, `open access log: open /nonesuch/access.log: no such file or directory`},
		{"unix listener on a file", oneServer, vars{"listen": "unix:" + dir + "/file"}, `the path exists and is no socket`},
		{"address of another machine", oneServer, vars{"listen": "192.0.2.1:80"}, `listen on 192.0.2.1:80: bind: cannot assign requested address`},
		{"server is the listener itself", oneServer, vars{"listen": "127.0.0.1:7", "server": "127.0.0.1:7"}, `127.0.0.1:7`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			v := vars{"server": "127.0.0.1:9"}
			for name, value := range test.vars {
				v[name] = value
			}
			p := launch(t, where{}, test.config, v)
			p.wantExit(15*time.Second, 1)
			if text := p.stderr.String(); !strings.Contains(text, test.why) {
				t.Errorf("weir said %q, want %q in it", text, test.why)
			}
			if n := strings.Count(p.stderr.String(), "weir: "); n > 1 {
				t.Errorf("weir complained %d times:\n%s", n, p.stderr)
			}
		})
	}
}

// A start that waits, here for a name server, can be called off.
func TestStartCanBeInterrupted(t *testing.T) {
	t.Parallel()
	zone := dnstest.Start(t)
	zone.SetSilent(true)
	p := launch(t, where{}, strings.Replace(discovered, "300ms", "1m", 1), vars{"dns": zone.Addr(), "name": "db.weir.test:5432", "kind": "resolve", "more": ""})
	eventually(t, 5*time.Second, "the name server is asked", func() bool { return zone.Questions("db.weir.test", dns.TypeA) > 0 })
	if p.exited() {
		t.Fatal("weir has not waited")
	}
	p.signal(syscall.SIGTERM)
	p.wantStartFailure("start called off by signal: terminated")
}

func TestConfigurationFileIsMissing(t *testing.T) {
	t.Parallel()
	out, err := tryRun(5*time.Second, binary, "run", "-c", tempDir(t)+"/nonesuch.hcl")
	if exitCode(err) != 1 || !strings.Contains(out, "nonesuch.hcl") {
		t.Errorf("%v: %s, want exit code 1 and the file's name", err, out)
	}
}

func TestBadCommandLine(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"run", "--nonesuch"}, {"nonesuch"}, {"run", "extra"}} {
		if out, err := tryRun(5*time.Second, binary, args...); exitCode(err) != 2 || !strings.Contains(out, "weir --help") {
			t.Errorf("weir %q: %v: %s, want exit code 2 and where to get help", args, err, out)
		}
	}
}

// Workers share a port with SO_REUSEPORT. Two processes must not.
func TestSecondWeirOnTheSamePortRefusesToStart(t *testing.T) {
	t.Parallel()
	first := start(t, oneServer, vars{"server": serve(t, says("first"))})
	second := launch(t, where{}, oneServer, vars{"listen": first.addr, "server": serve(t, says("second"))})
	second.wantStartFailure("bind: address already in use")
	_, port, _ := net.SplitHostPort(first.addr)
	anyAddress := launch(t, where{}, oneServer, vars{"listen": "0.0.0.0:" + port, "server": serve(t, says("second"))})
	anyAddress.wantStartFailure("bind: address already in use")
	for range 8 {
		if got := ask(t, first.addr); got != "first" {
			t.Errorf("got %q, want the answer of first", got)
		}
	}
}
