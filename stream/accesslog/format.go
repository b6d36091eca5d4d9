package accesslog

import (
	"encoding/hex"
	"encoding/json"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/internal/sys"
)

// field appends one value of a line. A string comes back unquoted with
// isString set; an absent value as nil.
type field struct {
	name     string
	isString bool
	value    func(b []byte, r *Record) []byte
}

func text(f func(b []byte, r *Record) []byte) field   { return field{isString: true, value: f} }
func number(f func(b []byte, r *Record) []byte) field { return field{value: f} }

var hostname, _ = os.Hostname()

var fields = map[conf.Variable]field{
	conf.VarTime: text(func(b []byte, r *Record) []byte {
		return r.End.Wall().AppendFormat(b, "2006-01-02T15:04:05.000Z07:00")
	}),
	conf.VarListener:   text(func(b []byte, r *Record) []byte { return append(b, r.Listener...) }),
	conf.VarProtocol:   text(func(b []byte, r *Record) []byte { return append(b, r.Protocol.String()...) }),
	conf.VarConnection: number(func(b []byte, r *Record) []byte { return strconv.AppendUint(b, r.Connection, 10) }),
	conf.VarRemoteAddr: text(func(b []byte, r *Record) []byte { return appendAddr(b, &r.Client) }),
	conf.VarRemotePort: number(func(b []byte, r *Record) []byte { return appendPort(b, &r.Client) }),
	conf.VarServerAddr: text(func(b []byte, r *Record) []byte { return appendAddr(b, &r.Server) }),
	conf.VarServerPort: number(func(b []byte, r *Record) []byte { return appendPort(b, &r.Server) }),
	conf.VarBinaryRemoteAddr: text(func(b []byte, r *Record) []byte {
		if r.Client.IsUnix() {
			return append(b, "unix:"...)
		}
		return hex.AppendEncode(b, r.Client.Addr().AsSlice())
	}),
	conf.VarHostname:      text(func(b []byte, _ *Record) []byte { return append(b, hostname...) }),
	conf.VarPid:           number(func(b []byte, _ *Record) []byte { return strconv.AppendInt(b, int64(os.Getpid()), 10) }),
	conf.VarStatus:        number(func(b []byte, r *Record) []byte { return strconv.AppendInt(b, int64(r.Reason.Status()), 10) }),
	conf.VarCloseReason:   text(func(b []byte, r *Record) []byte { return append(b, r.Reason.String()...) }),
	conf.VarTries:         number(func(b []byte, r *Record) []byte { return strconv.AppendInt(b, int64(r.Tries), 10) }),
	conf.VarBytesReceived: number(func(b []byte, r *Record) []byte { return strconv.AppendUint(b, r.Received, 10) }),
	conf.VarBytesSent:     number(func(b []byte, r *Record) []byte { return strconv.AppendUint(b, r.Sent, 10) }),
	conf.VarSessionTime:   number(func(b []byte, r *Record) []byte { return appendSeconds(b, r.End.Sub(r.Start)) }),
	conf.VarUpstream:      text(func(b []byte, r *Record) []byte { return append(b, r.Upstream...) }),
	conf.VarUpstreamAddr: text(func(b []byte, r *Record) []byte {
		if r.UpstreamAddr == "" {
			return nil
		}
		return append(b, r.UpstreamAddr...)
	}),
	conf.VarUpstreamConnectTime:   number(func(b []byte, r *Record) []byte { return appendSeconds(b, r.ConnectTime) }),
	conf.VarUpstreamFirstByteTime: number(func(b []byte, r *Record) []byte { return appendSeconds(b, r.FirstByteTime) }),
	conf.VarUpstreamSessionTime:   number(func(b []byte, r *Record) []byte { return appendSeconds(b, r.UpstreamTime) }),
	conf.VarUpstreamBytesSent:     number(func(b []byte, r *Record) []byte { return strconv.AppendUint(b, r.UpstreamSent, 10) }),
	conf.VarUpstreamBytesReceived: number(func(b []byte, r *Record) []byte { return strconv.AppendUint(b, r.UpstreamReceived, 10) }),
}

func appendAddr(b []byte, e *sys.Endpoint) []byte {
	if e.IsUnix() {
		return append(b, "unix:"...) // as nginx writes it
	}
	addr := e.Addr()
	if addr == (netip.Addr{}) {
		return nil
	}
	return addr.AppendTo(b)
}

func appendPort(b []byte, e *sys.Endpoint) []byte {
	if e.Port == 0 {
		return nil
	}
	return strconv.AppendUint(b, uint64(e.Port), 10)
}

func appendSeconds(b []byte, d time.Duration) []byte {
	if d < 0 {
		return nil
	}
	return strconv.AppendFloat(b, d.Seconds(), 'f', 3, 64)
}

// compile looks the variables up once; conf has checked that they exist.
func compile(vars []conf.Variable) []field {
	out := make([]field, len(vars))
	for i, v := range vars {
		out[i] = fields[v]
		out[i].name = string(v)
	}
	return out
}

// appendText appends a line of name=value pairs; a value with spaces is quoted.
func appendText(b []byte, line []field, r *Record, scratch []byte) []byte {
	for i := range line {
		if i > 0 {
			b = append(b, ' ')
		}
		b = append(b, line[i].name...)
		b = append(b, '=')
		v := line[i].value(scratch[:0], r)
		switch {
		case v == nil:
			b = append(b, '-')
		case len(v) == 0 || strings.ContainsAny(string(v), " \"=\n"):
			b = strconv.AppendQuote(b, string(v))
		default:
			b = append(b, v...)
		}
	}
	return append(b, '\n')
}

// appendJSON appends a line that is one JSON object.
func appendJSON(b []byte, line []field, r *Record, scratch []byte) []byte {
	b = append(b, '{')
	for i := range line {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = append(b, line[i].name...)
		b = append(b, '"', ':')
		v := line[i].value(scratch[:0], r)
		switch {
		case v == nil:
			b = append(b, "null"...)
		case line[i].isString:
			quoted, _ := json.Marshal(string(v)) // a string always marshals
			b = append(b, quoted...)
		default:
			b = append(b, v...)
		}
	}
	return append(b, '}', '\n')
}
