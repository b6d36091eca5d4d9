package hclfile

import (
	"fmt"
	"math"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/weirlb/weir/conf"
)

var serverBlock = &block{
	name:   "server",
	label:  "address",
	header: `server "HOST:PORT" {`,
	attrs: []attribute{
		{"name", kindString, `"a"`},
		{"weight", kindNumber, `1`},
		{"max_fails", kindNumber, `1`},
		{"fail_timeout", kindDuration, `"10s"`},
		{"max_conns", kindNumber, `0`},
		{"slow_start", kindDuration, `"30s"`},
		{"backup", kindBool, `true`},
		{"down", kindBool, `true`},
		{"resolve", kindBool, `true`},
		{"service", kindBool, `true`},
	},
	later: []string{"zone"},
	noOff: map[string]string{"fail_timeout": `Write "10s", or max_fails = 0 for a server that never becomes unavailable.`},
}

// declaredServer is a server with the places its parts were written at. A
// place is the zero range if the attribute is not in the file.
type declaredServer struct {
	conf.Server
	addressAt, nameAt, weightAt, maxFailsAt, backupAt, slowStartAt hcl.Range
}

func (d *decoder) server(b *body, u *declaredUpstream) {
	service := false
	b.boolean("service", &service)
	addr, ok := d.serverAddress(b, service)
	s := declaredServer{Server: conf.NewServer(addr), addressAt: b.labelAt}
	s.Service = service
	d.discovery(b, &s)
	s.Name = s.Label()
	if !ok {
		s.Name = b.label
	}
	if text, at, ok := b.text("name"); ok {
		if name, ok := d.name(text, at, "a server"); ok {
			s.Name, s.nameAt = name, at
		}
	}
	b.number("weight", 1, conf.MaxWeight, &s.Weight)
	b.number("max_fails", 0, math.MaxInt32, &s.MaxFails)
	b.number("max_conns", 0, math.MaxInt32, &s.MaxConns)
	b.boolean("backup", &s.Backup)
	b.boolean("down", &s.Down)
	b.duration("fail_timeout", orZero, &s.FailTimeout)
	b.duration("slow_start", orOff, &s.SlowStart)
	d.wholeSeconds(b, &s)
	s.weightAt, s.maxFailsAt, s.backupAt, s.slowStartAt = b.valueRange("weight"), b.valueRange("max_fails"), b.valueRange("backup"), b.nameRange("slow_start")
	d.uniqueName(u, &s)
	u.servers = append(u.servers, s)
	u.Servers = append(u.Servers, s.Server)
}

// wholeSeconds refuses fractions of a second in fail_timeout: the failure
// window compares whole seconds, as nginx does, so "1500ms" would mean "1s".
func (d *decoder) wholeSeconds(b *body, s *declaredServer) {
	rest := s.FailTimeout % time.Second
	if rest == 0 {
		return
	}
	down := s.FailTimeout - rest
	write := fmt.Sprintf("%q", conf.FormatDuration(down+time.Second))
	if down > 0 {
		write = fmt.Sprintf("%q or %q", conf.FormatDuration(down), conf.FormatDuration(down+time.Second))
	}
	d.errorf(b.valueRange("fail_timeout"), "fail_timeout is not a whole number of seconds",
		"Failures are counted in windows of whole seconds, as in nginx: write %s.", write)
}

// uniqueName refuses a name that two servers of an upstream would share.
// Servers that share an address and its default name are legal, as in nginx.
func (d *decoder) uniqueName(u *declaredUpstream, s *declaredServer) {
	i, taken := u.named[s.Name]
	if !taken {
		u.named[s.Name] = len(u.servers)
		return
	}
	other := u.servers[i]
	if (other.nameAt == hcl.Range{}) && (s.nameAt == hcl.Range{}) {
		return
	}
	at, first := s.nameAt, other.nameAt
	if (at == hcl.Range{}) {
		at = s.addressAt
	}
	if (first == hcl.Range{}) {
		first = other.addressAt
	}
	d.report(at, fmt.Sprintf("upstream %q has two servers named %q", u.Name, s.Name),
		"Give one of the two another name.", related{first, "first used here"})
}

// checkSlowStart refuses a ramp where only one server has sessions at a time.
func (d *decoder) checkSlowStart(u *declaredUpstream) {
	if u.Balance.Method != conf.Single || u.balance == nil {
		return
	}
	for _, s := range u.servers {
		if s.SlowStart != conf.Off {
			d.report(s.slowStartAt, "slow_start has no use with single",
				"The method has one active server, which takes every session from its first second on: there is no other to spare it. Remove slow_start, or use another method.", related{u.balance.labelAt, "the method is set here"})
		}
	}
}
