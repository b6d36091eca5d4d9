package conf_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
)

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"1ms": time.Millisecond, "250ms": 250 * time.Millisecond, "10s": 10 * time.Second, "1.5s": 1500 * time.Millisecond,
		"5m": 5 * time.Minute, "1h30m": 90 * time.Minute, "2d": 48 * time.Hour, "365d": conf.MaxDuration, "0h1m": time.Minute,
		"010s": 10 * time.Second, ".5s": 500 * time.Millisecond, "8760.0h": conf.MaxDuration,
	} {
		if got, err := conf.ParseDuration(text); err != nil || got != want {
			t.Errorf("ParseDuration(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for ms := time.Duration(1); ms <= 10000; ms++ {
		text := fmt.Sprintf("%d.%03ds", ms/1000, ms%1000)
		if got, err := conf.ParseDuration(text); err != nil || got != ms*time.Millisecond {
			t.Fatalf("ParseDuration(%q) = %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"":                       `such as "30s"`,
		"0":                      `write "off"`,
		"0s":                     `write "off"`,
		"10":                     `write "10s" for seconds or "10ms"`,
		"10 seconds":             `write "10s"`,
		"2 hours 30 minutes":     `write "150m"`,
		"5min":                   `write "5m"`,
		"10x":                    "the units are",
		"s":                      "write a number and a unit",
		"-1s":                    "write a number and a unit",
		"1s-":                    "write a number and a unit",
		"10s 5":                  "is not a duration",
		"1..5s":                  "write a number and a unit",
		"0.5ms":                  "whole number of milliseconds",
		"366d":                   "longer than a year",
		"99999999999999999999h":  "longer than a year",
		"1e3s":                   "unknown unit",
		"off":                    "write a number and a unit",
		"NaN":                    "",
		"Inf":                    "",
		strings.Repeat("1s", 99): "too long",
	} {
		got, err := conf.ParseDuration(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseDuration(%q) = %v, %v, want an error with %q", text, got, err, want)
		}
	}
}

func TestFormatDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		conf.Off: "off", 1500 * time.Millisecond: "1500ms", 90 * time.Second: "90s", 2 * time.Minute: "2m", 48 * time.Hour: "48h",
	} {
		if got := conf.FormatDuration(d); got != want {
			t.Errorf("FormatDuration(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestParseServerAddress(t *testing.T) {
	for _, text := range []string{
		"10.0.0.1:5432", "[::1]:80", "[fe80::1%eth0]:80", "db.example:5432", "my_db:1", "db.example.:65535", "unix:/run/pg.sock",
	} {
		a, err := conf.ParseServerAddress(text)
		if err != nil || a.String() != text {
			t.Errorf("ParseServerAddress(%q) = %v, %v", text, a, err)
		}
	}
	for text, want := range map[string]string{
		"":                                  "is empty",
		"db":                                `write "db:5432"`,
		"::1:5432":                          `write "[::1]:5432"`,
		"fe80::1":                           "needs brackets",
		"[::1]":                             "needs brackets",
		"10.0.0.256:1":                      "four numbers",
		"1.2.3:80":                          "four numbers",
		":80":                               "has no host",
		"db:0":                              "1 to 65535",
		"db:65536":                          "1 to 65535",
		"db:-1":                             "1 to 65535",
		"db:http":                           "1 to 65535",
		"tcp://db:1":                        "no scheme",
		"a b:1":                             "can't be part",
		"a..b:1":                            "1 to 63",
		"/run/pg.sock":                      `write "unix:/run/pg.sock"`,
		"unix:":                             "needs a path",
		"unix:@x":                           "abstract",
		"unix:run":                          `write "unix:/run"`,
		strings.Repeat("a.", 130) + "b:1":   "DNS allows",
		"unix:/" + strings.Repeat("a", 107): "the kernel takes",
	} {
		if a, err := conf.ParseServerAddress(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseServerAddress(%q) = %v, %v, want an error with %q", text, a, err, want)
		}
	}
}

func TestParseListenAddress(t *testing.T) {
	for text, n := range map[string]int{
		"0.0.0.0:80": 1, "[::]:80": 1, "unix:/run/x": 1, "127.0.0.1:6000-6010": 11, "0.0.0.0:1-65535": 65535, "[::1]:5-5": 1,
	} {
		if got, err := conf.ParseListenAddress(text); err != nil || len(got) != n {
			t.Errorf("ParseListenAddress(%q): %d addresses, %v, want %d", text, len(got), err, n)
		}
	}
	for text, want := range map[string]string{
		"80":              `write "0.0.0.0:80" for IPv4, "[::]:80" for IPv6`,
		":80":             `write "0.0.0.0:80"`,
		"*:80":            `write "0.0.0.0:80"`,
		"localhost:80":    "not an IP address",
		"0.0.0.0:90-80":   `write "80-90"`,
		"0.0.0.0:0-80":    "not a port",
		"0.0.0.0:80-":     "not a port",
		"0.0.0.0:80-90-5": "not a port",
		"0.0.0.0":         "has no port",
	} {
		if got, err := conf.ParseListenAddress(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseListenAddress(%q) = %v, %v, want an error with %q", text, got, err, want)
		}
	}
}

func TestParseServiceName(t *testing.T) {
	for _, text := range []string{"_pg._tcp.example", "db.service.consul", "_pg._tcp.example."} {
		a, err := conf.ParseServiceName(text)
		if err != nil || a != (conf.Address{Host: text}) {
			t.Errorf("ParseServiceName(%q) = %v, %v", text, a, err)
		}
		if s := (conf.Server{Address: a, Service: true}); s.Label() != text {
			t.Errorf("the label of %q is %q", text, s.Label())
		}
	}
	for text, want := range map[string]string{
		"":                      `such as "_pg._tcp.example"`,
		"_pg._tcp.example:5432": `write "_pg._tcp.example" without ":5432"`,
		"10.0.0.1":              "write its port",
		"[::1]":                 "write its port",
		"::1":                   "write its port",
		"10.0.0.1:80":           "remove service",
		"[::1]:80":              "remove service",
		"unix:/run/x":           "no SRV records",
		"a b":                   "can't be part",
	} {
		if a, err := conf.ParseServiceName(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseServiceName(%q) = %v, %v, want an error with %q", text, a, err, want)
		}
	}
}

func TestParseRate(t *testing.T) {
	for text, want := range map[string]conf.Rate{"200/s": 200, "0.5/s": 0.5, "1000000000/s": conf.MaxRate, "0.001/s": 0.001} {
		if got, err := conf.ParseRate(text); err != nil || got != want || conf.FormatRate(got) != text {
			t.Errorf("ParseRate(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                             "not a rate",
		"/s":                           "not a rate",
		"off":                          "not a rate",
		"-1/s":                         "not a rate",
		"1e3/s":                        "not a rate",
		"NaN/s":                        "not a rate",
		"10MiB/s":                      "not a rate",
		"1.2.3/s":                      "not a rate",
		"0/s":                          `write "off"`,
		"0":                            `write "off"`,
		"200":                          `write "200/s"`,
		"200 / s":                      `write "200/s"`,
		"60/min":                       `write "1/s"`,
		"1/h":                          `write "0.001/s"`,
		"5/fortnight":                  `write "5/s"`,
		"0.0001/s":                     `write "0.001/s" or more`,
		"1000000001/s":                 "more than 1000000000/s",
		strings.Repeat("9", 40) + "/s": "not a rate",
	} {
		if got, err := conf.ParseRate(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseRate(%q) = %v, %v, want an error with %q", text, got, err, want)
		}
	}
}

func TestParseByteRate(t *testing.T) {
	for text, want := range map[string]conf.ByteRate{"10MiB/s": 10 << 20, "64KiB/s": 64 << 10, "1GiB/s": 1 << 30, "1B/s": 1, "1000000B/s": 1_000_000, "1024GiB/s": conf.MaxByteRate} {
		if got, err := conf.ParseByteRate(text); err != nil || got != want || conf.FormatByteRate(got) != text {
			t.Errorf("ParseByteRate(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	if got, err := conf.ParseByteRate("1.5MiB/s"); err != nil || got != 3<<19 || conf.FormatByteRate(got) != "1536KiB/s" {
		t.Errorf("1.5MiB/s is %v, %v", got, err)
	}
	for text, want := range map[string]string{
		"":                               "not a rate",
		"/s":                             "not a rate",
		"off":                            "not a rate",
		"-1MiB/s":                        "not a rate",
		"1e3B/s":                         "not a rate",
		"1.2.3B/s":                       "not a rate",
		"0":                              `write "off"`,
		"0MiB/s":                         `write "off"`,
		"10MB/s":                         `write "10MiB/s", or "10000000B/s" if`,
		"10mb/s":                         `write "10MiB/s", or "10000000B/s" if`,
		"64kB/s":                         `write "64KiB/s", or "64000B/s" if`,
		"10MBps":                         `write "10MiB/s", or "10000000B/s" if`,
		"10Mbit/s":                       `8, write "1250000B/s"`,
		"10Mb/s":                         `8, write "1250000B/s"`,
		"10Mbps":                         `8, write "1250000B/s"`,
		"10mbps":                         `8, write "1250000B/s"`,
		"64Kibit/s":                      `8, write "8KiB/s"`,
		"1bit/s":                         `8, write "1B/s"`,
		"10MiB":                          `write "10MiB/s"`,
		"10 MiB/s":                       `write "10MiB/s"`,
		"10mib/s":                        `write "10MiB/s"`,
		"10m":                            `write "10MiB/s"`,
		"100k":                           `write "100KiB/s"`,
		"10Mi/s":                         `write "10MiB/s"`,
		"500/s":                          `write "500B/s"`,
		"500":                            `write "500B/s"`,
		"60MiB/min":                      `write "1MiB/s"`,
		"1B/h":                           `write "1B/s"`,
		"10MiB/fortnight":                "unknown unit",
		"10acres/s":                      "unknown unit",
		"0.1KiB/s":                       `bytes: write "102B/s"`,
		"0.1B/s":                         `bytes: write "1B/s"`,
		"1025GiB/s":                      "more than 1024GiB/s",
		strings.Repeat("9", 40) + "B/s":  "not a rate",
		strings.Repeat("9", 28) + "MB/s": "more than 1024GiB/s",
	} {
		if got, err := conf.ParseByteRate(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseByteRate(%q) = %v, %v, want an error with %q", text, got, err, want)
		}
	}
	if got := conf.FormatByteRate(0); got != "off" {
		t.Errorf("no limit is written %q", got)
	}
}

func TestParsePercentile(t *testing.T) {
	for text, want := range map[string]float64{"p50": 0.5, "p95": 0.95, "p99": 0.99, "p99.9": 0.999, "p97.5": 0.975, "p57": 0.57} {
		if got, err := conf.ParsePercentile(text); err != nil || got != want || conf.FormatPercentile(got) != text {
			t.Errorf("ParsePercentile(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":       `such as "p95"`,
		"p":      `such as "p95"`,
		"95%":    `write "p95"`,
		"95th":   `write "p95"`,
		"P95":    `write "p95"`,
		"95":     `write "p95"`,
		"p0.95":  `write "p95"`,
		"0.999":  `write "p99.9"`,
		"p10":    `from "p50" to "p99.9"`,
		"p100":   `from "p50" to "p99.9"`,
		"p99.99": `from "p50" to "p99.9"`,
		"p1e1":   `from "p50" to "p99.9"`,
	} {
		if got, err := conf.ParsePercentile(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParsePercentile(%q) = %v, %v, want an error with %q", text, got, err, want)
		}
	}
}

func TestParsePercent(t *testing.T) {
	for text, want := range map[string]float64{"30%": 0.3, "33.3%": 0.333, "0%": 0, "100%": 1, "7%": 0.07, "0.5%": 0.005, "5.%": 0.05} {
		if got, err := conf.ParsePercent(text); err != nil || got != want {
			t.Errorf("ParsePercent(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":      "not a percentage",
		"%":     "not a percentage",
		".%":    "not a percentage",
		"-1%":   "not a percentage",
		"1e1%":  "not a percentage",
		"half":  "not a percentage",
		"30":    `write "30%"`,
		"0.3":   "0.3 without quotes",
		"101%":  "more than all",
		"300":   "more than all",
		"30 %":  "not a percentage",
		"Inf%":  "not a percentage",
		"0x1p%": "not a percentage",
	} {
		if got, err := conf.ParsePercent(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParsePercent(%q) = %v, %v, want an error with %q", text, got, err, want)
		}
	}
}

// A profile is for something, and what it sets is a whole listener and whole
// checks.
func TestProfiles(t *testing.T) {
	for _, p := range append(conf.Profiles(), conf.NoProfile) {
		d := p.Defaults()
		if !d.TCP && !d.UDP {
			t.Errorf("profile %q is for no listener", p)
		}
		if d.ConnectTimeout <= 0 || d.HalfCloseTimeout <= 0 || d.DeadPeerTimeout <= 0 {
			t.Errorf("profile %q leaves a session without a bound: %+v", p, d)
		}
		if d.Datagrams.IdleTimeout <= 0 {
			t.Errorf("profile %q leaves UDP sessions for ever", p)
		}
		if d.IdleTimeout != conf.Off && d.IdleTimeout <= d.Keepalive {
			t.Errorf("profile %q ends healthy sessions: idle_timeout %s, keepalive %s", p, d.IdleTimeout, d.Keepalive)
		}
		if d.TCPCheck != nil && !d.TCP || d.UDPCheck != nil && !d.UDP {
			t.Errorf("profile %q has a check for nobody", p)
		}
		if p != conf.NoProfile && d.TCPCheck == nil && d.UDPCheck == nil && d.NoCheck == "" {
			t.Errorf("profile %q does not say why it has no check", p)
		}
		for _, h := range []*conf.HealthCheck{d.TCPCheck, d.UDPCheck} {
			if h != nil && (h.Kind == conf.CheckMySQL || h.User != "" || h.Role != conf.AnyRole || h.Timeout > h.Interval) {
				t.Errorf("the check of profile %q needs what nobody has said: %+v", p, h)
			}
		}
	}
}

func TestDefaultsAreValid(t *testing.T) {
	c := conf.Default()
	valid := map[conf.Variable]bool{}
	for _, v := range conf.LogVariables() {
		valid[v] = true
	}
	for _, v := range c.Log.Fields {
		if !valid[v] {
			t.Errorf("default log field %q is not a log variable", v)
		}
	}
	if l := conf.NewListener("a"); l.ConnectTimeout == conf.Off {
		t.Error("connect_timeout is off by default")
	}
}

// What parses is written as something that parses to the same.
func FuzzParseDuration(f *testing.F) {
	for _, s := range []string{"10s", "1h30m", "0", "1.5s", "10 seconds", "off", "365d", "1e9s"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := conf.ParseDuration(text)
		if err != nil {
			return
		}
		if d < time.Millisecond || d > conf.MaxDuration || d%time.Millisecond != 0 {
			t.Fatalf("ParseDuration(%q) = %v, out of its range", text, d)
		}
		if again, err := conf.ParseDuration(conf.FormatDuration(d)); err != nil || again != d {
			t.Fatalf("%q is %v, written %q, which is %v, %v", text, d, conf.FormatDuration(d), again, err)
		}
	})
}

// What parses is written as something that parses to the same.
func FuzzParseRate(f *testing.F) {
	for _, s := range []string{"200/s", "0.5/s", "60/m", "1e9/s", "0.001/s", "999999999.9/s", "off", "5", "1/fortnight"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := conf.ParseRate(text)
		if err != nil {
			return
		}
		if again, err := conf.ParseRate(conf.FormatRate(r)); r <= 0 || r > conf.MaxRate || err != nil || again != r {
			t.Fatalf("%q is %v, written %q, which is %v, %v", text, r, conf.FormatRate(r), again, err)
		}
	})
}

// What parses is written as something that parses to the same.
func FuzzParseByteRate(f *testing.F) {
	for _, s := range []string{"10MiB/s", "1.5GiB/s", "1B/s", "10MB/s", "10Mbit/s", "100k", "0.1KiB/s", "1024GiB/s", "off", "64kibps", "9/h"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := conf.ParseByteRate(text)
		if err != nil {
			return
		}
		if again, err := conf.ParseByteRate(conf.FormatByteRate(r)); r < 1 || r > conf.MaxByteRate || err != nil || again != r {
			t.Fatalf("%q is %v, written %q, which is %v, %v", text, r, conf.FormatByteRate(r), again, err)
		}
	})
}

// What parses is written as something that parses to the same.
func FuzzParsePercentile(f *testing.F) {
	for _, s := range []string{"p95", "p99.9", "p50", "95%", "P95", "p0.95", "p49", "p100"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := conf.ParsePercentile(text)
		if err != nil {
			return
		}
		if again, err := conf.ParsePercentile(conf.FormatPercentile(p)); p < 0.5 || p > 0.999 || err != nil || again != p {
			t.Fatalf("%q is %v, written %q, which is %v, %v", text, p, conf.FormatPercentile(p), again, err)
		}
	})
}

func FuzzParsePercent(f *testing.F) {
	for _, s := range []string{"30%", "0%", "100%", "33.3%", "0.3", "101%", "1e1%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if r, err := conf.ParsePercent(text); err == nil && !(r >= 0 && r <= 1) {
			t.Fatalf("%q is %v", text, r)
		}
	})
}

func FuzzParseAddress(f *testing.F) {
	for _, s := range []string{"10.0.0.1:80", "[::1]:80", "db:80", "unix:/run/x", "0.0.0.0:80-90", "::1:80", "tcp://x:1", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if a, err := conf.ParseServerAddress(text); err == nil {
			if again, err := conf.ParseServerAddress(a.String()); err != nil || again != a {
				t.Fatalf("%q is %+v, written %q, which is %+v, %v", text, a, a, again, err)
			}
		}
		if a, err := conf.ParseServiceName(text); err == nil && (a.Host != text || a.Port != 0 || a.IsUnix()) {
			t.Fatalf("%q is the service %+v", text, a)
		}
		list, err := conf.ParseListenAddress(text)
		if err == nil && len(list) == 0 {
			t.Fatalf("%q: no addresses and no error", text)
		}
		for _, a := range list[:min(len(list), 2)] {
			if _, isIP := a.IP(); !isIP && !a.IsUnix() {
				t.Fatalf("%q listens on %+v", text, a)
			}
		}
	})
}
