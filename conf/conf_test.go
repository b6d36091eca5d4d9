package conf_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
)

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"1ms": time.Millisecond, "250ms": 250 * time.Millisecond, "10s": 10 * time.Second, "1.5s": 1500 * time.Millisecond,
		"5m": 5 * time.Minute, "1h30m": 90 * time.Minute, "2d": 48 * time.Hour, "365d": conf.MaxDuration, "0h1m": time.Minute,
	} {
		if got, err := conf.ParseDuration(text); err != nil || got != want {
			t.Errorf("ParseDuration(%q) = %v, %v, want %v", text, got, err, want)
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
