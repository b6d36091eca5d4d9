package health

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/weirlb/weir/conf"
)

// newSendExpect returns a probe that does the configuration's steps.
func newSendExpect(h *conf.HealthCheck, at *endpoint) (probe, error) {
	if len(h.Steps) == 0 {
		return nil, errors.New("no steps")
	}
	return &visit{at: at, talk: func(_ context.Context, c net.Conn) (reading, error) {
		return alive(""), takeSteps(h.Steps, c, 4<<10)
	}}, nil
}

// takeSteps sends and waits. What has come after the bytes that a step waited
// for is the next one's; what has come before a step sends is no answer to it.
// Each read has room for that many bytes, as long as all are within maxBytes.
func takeSteps(steps []conf.Step, c net.Conn, room int) error {
	var seen []byte
	for i := range steps {
		s := &steps[i]
		if s.Expect == nil && s.Match == nil {
			if _, err := c.Write(s.Send); err != nil {
				return doing(fmt.Sprintf("sending %s", quote(s.Send)), err)
			}
			seen = seen[:0]
			continue
		}
		var err error
		if seen, err = await(s, seen, c, room); err != nil {
			return err
		}
	}
	return nil
}

// await reads until what the step wants has come, and returns what came after
// it. It reads into the array of seen.
func await(s *conf.Step, seen []byte, c net.Conn, room int) ([]byte, error) {
	for {
		if end := find(s, seen); end >= 0 {
			return seen[:copy(seen, seen[end:])], nil
		}
		if len(seen) == maxBytes {
			return nil, fmt.Errorf("the first %d KiB are without %s", maxBytes>>10, wanted(s))
		}
		seen = slices.Grow(seen, min(room, maxBytes-len(seen)))
		n, err := c.Read(seen[len(seen):min(cap(seen), maxBytes)])
		seen = seen[:len(seen)+n]
		if n == 0 && err != nil {
			what := "waiting for " + wanted(s)
			if len(seen) > 0 {
				what += " after " + quote(seen)
			}
			return nil, doing(what, err)
		}
	}
}

// find returns where what the step wants ends in seen, or -1.
func find(s *conf.Step, seen []byte) int {
	if s.Match != nil {
		if at := s.Match.FindIndex(seen); at != nil {
			return at[1]
		}
		return -1
	}
	if i := bytes.Index(seen, s.Expect); i >= 0 {
		return i + len(s.Expect)
	}
	return -1
}

func wanted(s *conf.Step) string {
	if s.Match != nil {
		return fmt.Sprintf("a match of %q", s.Match)
	}
	return quote(s.Expect)
}

// quote shows the beginning of some bytes.
func quote(b []byte) string {
	const most = 40
	if len(b) > most {
		return fmt.Sprintf("%q...", b[:most])
	}
	return fmt.Sprintf("%q", b)
}
