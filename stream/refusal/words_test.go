package refusal

import (
	"bufio"
	"encoding/binary"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/weirlb/weir/conf"
)

const text = "weir: orders is full, try again later"

// first is a message that a PostgreSQL client begins with.
func first(code uint32, rest string) string {
	b := binary.BigEndian.AppendUint32(nil, uint32(8+len(rest)))
	return string(binary.BigEndian.AppendUint32(b, code)) + rest
}

const (
	version30 = 3 << 16
	version32 = 3<<16 | 2
)

var (
	ssl     = first(sslRequest, "")
	gss     = first(gssRequest, "")
	startup = first(version30, "user\x00weir\x00database\x00orders\x00\x00")
)

// The replies, byte by byte, as the protocols' manuals have them.
var (
	fatal     = "E\x00\x00\x00\x41" + "SFATAL\x00VFATAL\x00C53300\x00M" + text + "\x00\x00"
	err1040   = "\x28\x00\x00\x00\xff\x10\x04" + text
	respError = "-ERR " + text + "\r\n"
	error503  = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nContent-Length: 38\r\n" +
		"Retry-After: 1\r\nConnection: close\r\n\r\n" + text + "\n"
)

// converse says something in pieces of that size to whom has a buffer of
// MostInput bytes, and returns all that was answered and whether that was the
// end.
func converse(t *testing.T, w *Words, said string, piece int) (answers string, done bool) {
	t.Helper()
	var input []byte
	for {
		used, reply, end := w.Next(input)
		if used < 0 || used > len(input) {
			t.Fatalf("%q: %d bytes are used", input, used)
		}
		answers += string(reply)
		if end {
			return answers, true
		}
		input = input[used:]
		if used > 0 || len(reply) > 0 {
			continue
		}
		if len(input) >= MostInput {
			t.Fatalf("%q is not enough", input)
		}
		if said == "" {
			return answers, false
		}
		n := min(piece, MostInput-len(input), len(said))
		input = append(input, said[:n]...)
		said = said[n:]
	}
}

func TestWords(t *testing.T) {
	for _, test := range []struct {
		name    string
		profile conf.Profile
		said    string
		want    string
		done    bool
	}{
		{"nothing yet", conf.ProfilePostgres, "", "", false},
		{"part of a message", conf.ProfilePostgres, startup[:7], "", false},
		{"startup", conf.ProfilePostgres, startup, fatal, true},
		{"head of a startup", conf.ProfilePostgres, startup[:8], fatal, true},
		{"startup of protocol 3.2", conf.ProfilePostgres, first(version32, "user\x00weir\x00\x00"), fatal, true},
		{"startup of protocol 2.0", conf.ProfilePostgres, first(2<<16, strings.Repeat("\x00", 288)), fatal, true},
		{"SSL refused, no more", conf.ProfilePostgres, ssl, "N", false},
		{"SSL, then startup", conf.ProfilePostgres, ssl + startup, "N" + fatal, true},
		{"GSS, SSL, startup", conf.ProfilePostgres, gss + ssl + startup, "NN" + fatal, true},
		{"GSS, and part of a message", conf.ProfilePostgres, gss + startup[:3], "N", false},
		{"SSL with more inside", conf.ProfilePostgres, first(sslRequest, "more"), fatal, true},
		{"cancel", conf.ProfilePostgres, first(cancelRequest, "12345678"), "", true},
		{"cancel with a long key (protocol 3.2)", conf.ProfilePostgres, first(cancelRequest, strings.Repeat("k", 36)), "", true},
		{"SSL, then cancel", conf.ProfilePostgres, ssl + first(cancelRequest, "12345678"), "N", true},
		{"TLS at once", conf.ProfilePostgres, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "", true},
		{"another protocol", conf.ProfilePostgres, "GET / HTTP/1.1\r\n\r\n", "", true},
		{"too short", conf.ProfilePostgres, "\x00\x00\x00\x07\x00\x03\x00\x00", "", true},
		{"longest", conf.ProfilePostgres, "\x00\x00\x27\x10\x00\x03\x00\x00", fatal, true},
		{"too long", conf.ProfilePostgres, "\x00\x00\x27\x11\x00\x03\x00\x00", "", true},

		{"at once", conf.ProfileMySQL, "", err1040, true},
		{"at once", conf.ProfileRedis, "", respError, true},
		{"at once", conf.ProfileRedis, "*1\r\n$4\r\nPING\r\n", respError, true},

		{"nothing yet", conf.ProfileHTTP, "", "", false},
		{"first byte", conf.ProfileHTTP, "G", error503, true},
		{"request", conf.ProfileHTTP, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", error503, true},
		{"TLS", conf.ProfileHTTP, "\x16\x03\x01", "", true},
	} {
		t.Run(string(test.profile)+" "+test.name, func(t *testing.T) {
			w := New(test.profile, text)
			for piece := 1; piece <= MostInput; piece++ {
				if got, done := converse(t, w, test.said, piece); got != test.want || done != test.done {
					t.Errorf("in pieces of %d: %q and done %v, want %q and %v", piece, got, done, test.want, test.done)
				}
			}
		})
	}
}

// Input that came in one piece, and is longer than need be, is dealt with too.
func TestNextWithMoreInput(t *testing.T) {
	w := New(conf.ProfilePostgres, text)
	used, reply, done := w.Next([]byte(ssl + startup))
	if used != len(ssl) || string(reply) != "N" || done {
		t.Errorf("%d bytes used, %q, done %v, want the first message answered", used, reply, done)
	}
	used, reply, done = w.Next([]byte(startup))
	if used != len(startup) || string(reply) != fatal || !done {
		t.Errorf("%d bytes used, %q, done %v, want the end", used, reply, done)
	}
}

func TestProfilesWithWords(t *testing.T) {
	with := []conf.Profile{conf.ProfilePostgres, conf.ProfileMySQL, conf.ProfileRedis, conf.ProfileHTTP}
	for _, p := range append(conf.Profiles(), conf.NoProfile) {
		if got, want := New(p, text) != nil, slices.Contains(with, p); got != want {
			t.Errorf("profile %q has words: %v, want %v", p, got, want)
		}
	}
}

// No text breaks out of its place in the protocol, or makes a reply that a client
// would not read.
func TestTextStaysInItsPlace(t *testing.T) {
	const evil = "a\r\nb\x00c\xe4\x7f"
	const tame = "a  b c  "
	for p, want := range map[conf.Profile]string{
		conf.ProfilePostgres: "M" + tame + "\x00\x00",
		conf.ProfileMySQL:    "\x0b\x00\x00\x00\xff\x10\x04" + tame,
		conf.ProfileRedis:    "-ERR " + tame + "\r\n",
		conf.ProfileHTTP:     "Content-Length: 9\r\nRetry-After: 1\r\nConnection: close\r\n\r\n" + tame + "\n",
	} {
		if got, _ := converse(t, New(p, evil), startup, MostInput); !strings.HasSuffix(got, want) {
			t.Errorf("%s answers %q, want %q at its end", p, got, want)
		}
	}
	long := strings.Repeat("x", 1000)
	if got, _ := converse(t, New(conf.ProfileRedis, long), "", 1); got != "-ERR "+long[:200]+"\r\n" {
		t.Errorf("a text of %d bytes makes a reply of %d", len(long), len(got))
	}
}

// What net/http makes of the response.
func TestHTTPResponse(t *testing.T) {
	answer, _ := converse(t, New(conf.ProfileHTTP, text), "GET", 3)
	r, err := http.ReadResponse(bufio.NewReader(strings.NewReader(answer)), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || string(body) != text+"\n" || !r.Close || r.Header.Get("Retry-After") != "1" {
		t.Errorf("the response is %+v with %q and %v", r, body, err)
	}
}

func TestNextDoesNotAllocate(t *testing.T) {
	for _, p := range conf.Profiles() {
		w := New(p, text)
		if w == nil {
			continue
		}
		inputs := [][]byte{nil, []byte(ssl), []byte(gss), []byte(startup), []byte("GET / HTTP/1.1\r\n\r\n")}
		if n := testing.AllocsPerRun(100, func() {
			for _, in := range inputs {
				w.Next(in)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations, want none", p, n)
		}
	}
}

// Whatever is said, in whatever pieces: the answers are the same, there is one of
// the known last replies or none, and with MostInput bytes there is no more to
// wait for (converse looks).
func FuzzNext(f *testing.F) {
	profiles := []conf.Profile{conf.ProfilePostgres, conf.ProfileMySQL, conf.ProfileRedis, conf.ProfileHTTP}
	var words []*Words
	for _, p := range profiles {
		words = append(words, New(p, text))
	}
	last := map[conf.Profile]string{
		conf.ProfilePostgres: fatal, conf.ProfileMySQL: err1040, conf.ProfileRedis: respError, conf.ProfileHTTP: error503,
	}
	for _, said := range []string{"", ssl, gss + ssl + startup, startup, first(cancelRequest, "12345678"), "\x16\x03\x01", "GET / HTTP/1.1\r\n\r\n"} {
		for i := range profiles {
			f.Add(uint8(i), []byte(said), uint8(3))
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, said []byte, piece uint8) {
		w := words[int(which)%len(words)]
		answers, done := converse(t, w, string(said), MostInput)
		if again, doneAgain := converse(t, w, string(said), 1+int(piece)%MostInput); again != answers || doneAgain != done {
			t.Errorf("%q: %q and %v, in pieces %q and %v", said, answers, done, again, doneAgain)
		}
		rest := strings.TrimLeft(answers, "N")
		if rest != "" && (rest != last[w.profile] || !done) {
			t.Errorf("%q: answered %q, done %v", said, answers, done)
		}
		if w.profile != conf.ProfilePostgres && len(answers) != len(rest) {
			t.Errorf("%s: %q answered with %q", w.profile, said, answers)
		}
	})
}
