package discovery

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/weirlb/weir/conf"
)

const (
	maxFileServers = 10000
	maxNameBytes   = 255 // as in the configuration
	maxMistakes    = 3   // that an error tells of
)

// parseServers reads the contents of a server_file:
//
//	{"servers": [{"address": "10.0.0.11:5432", "weight": 10}]}
//
// Words, ranges and defaults are those of a server block. The error names the
// entries that are wrong.
func parseServers(data []byte) ([]conf.Server, error) {
	var whole json.RawMessage
	if err := json.Unmarshal(data, &whole); err != nil {
		return nil, syntaxError(data, err)
	}
	var list []json.RawMessage
	err := object(whole, fields{"servers": func(v json.RawMessage) error { return array(v, &list) }})
	switch {
	case err != nil:
		return nil, err
	case list == nil:
		return nil, errors.New(`there is no "servers": a file without any is {"servers":[]}`)
	case len(list) > maxFileServers:
		return nil, fmt.Errorf("it has %d servers, the limit is %d", len(list), maxFileServers)
	}
	out := make([]conf.Server, 0, len(list))
	named := map[string]int{}
	var wrong mistakes
	for i, raw := range list {
		s, err := parseServer(raw)
		if err == nil {
			if other, taken := named[s.Name]; taken {
				err = fmt.Errorf("has the name of server %d: give one of the two another", other)
			}
			named[s.Name] = i + 1
		}
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("server %d%s: %v", i+1, called(raw), err))
			continue
		}
		out = append(out, s)
	}
	if wrong != nil {
		return nil, wrong
	}
	return out, nil
}

// mistakes are all that is wrong with a file.
type mistakes []string

func (m mistakes) Error() string {
	text := strings.Join(m[:min(len(m), maxMistakes)], "; ")
	if more := len(m) - maxMistakes; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// called returns what an entry calls itself, for people who look for it.
func called(raw json.RawMessage) string {
	var e struct{ Name, Address any }
	_ = json.Unmarshal(raw, &e)
	for _, v := range []any{e.Name, e.Address} {
		if text, ok := v.(string); ok && text != "" {
			return fmt.Sprintf(" (%.64q)", text)
		}
	}
	return ""
}

// syntaxError says where a file is no JSON.
func syntaxError(data []byte, err error) error {
	var s *json.SyntaxError
	if !errors.As(err, &s) {
		return fmt.Errorf("read JSON: %w", err)
	}
	before := data[:min(int(s.Offset), len(data))]
	line := bytes.Count(before, []byte{'\n'}) + 1
	return fmt.Errorf("read JSON: line %d: %w", line, err)
}

// fields reads the values of an object, by their words.
type fields map[string]func(json.RawMessage) error

// object reads an object that has no other words than these, and each once.
// encoding/json itself would take "Weight" for "weight", and the last of two.
func object(raw json.RawMessage, known fields) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("is no object, but %s", shown(raw))
	}
	seen := map[string]bool{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return err
		}
		word := t.(string)
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return err
		}
		read := known[word]
		switch {
		case read == nil:
			return unknown(word, known)
		case seen[word]:
			return fmt.Errorf("has %q twice", word)
		}
		seen[word] = true
		if err := read(v); err != nil {
			return fmt.Errorf("%s: %w", word, err)
		}
	}
	return nil
}

func unknown(word string, known fields) error {
	var words []string
	for w := range known {
		words = append(words, w)
	}
	if near := conf.Nearest(word, words); near != "" {
		return fmt.Errorf("there is no %.64q here: do you mean %q?", word, near)
	}
	return fmt.Errorf("there is no %.64q here", word)
}

func parseServer(raw json.RawMessage) (conf.Server, error) {
	s := conf.NewServer(conf.Address{})
	s.Name = ""
	err := object(raw, fields{
		"address":      func(v json.RawMessage) error { return address(v, &s.Address) },
		"name":         func(v json.RawMessage) error { return name(v, &s.Name) },
		"weight":       func(v json.RawMessage) error { return number(v, 1, conf.MaxWeight, &s.Weight) },
		"max_fails":    func(v json.RawMessage) error { return number(v, 0, math.MaxInt32, &s.MaxFails) },
		"fail_timeout": func(v json.RawMessage) error { return wholeSeconds(v, &s.FailTimeout) },
		"max_conns":    func(v json.RawMessage) error { return number(v, 0, math.MaxInt32, &s.MaxConns) },
		"slow_start":   func(v json.RawMessage) error { return durationOrOff(v, &s.SlowStart) },
		"backup":       func(v json.RawMessage) error { return boolean(v, &s.Backup) },
		"down":         func(v json.RawMessage) error { return boolean(v, &s.Down) },
	})
	switch {
	case err != nil:
		return s, err
	case s.Address.IsZero():
		return s, errors.New(`it has no address: write "address": "10.0.0.11:5432"`)
	case s.Name == "":
		s.Name = s.Address.String()
	}
	return s, nil
}

// shown returns a value as an error may show it.
func shown(raw json.RawMessage) string { return fmt.Sprintf("%.64s", bytes.TrimSpace(raw)) }

func array(raw json.RawMessage, into *[]json.RawMessage) error {
	if err := json.Unmarshal(raw, into); err != nil || *into == nil {
		return fmt.Errorf("takes a list, not %s", shown(raw))
	}
	return nil
}

func text(raw json.RawMessage) (string, error) {
	var s *string
	if err := json.Unmarshal(raw, &s); err != nil || s == nil {
		return "", fmt.Errorf("takes a text, not %s", shown(raw))
	}
	return *s, nil
}

func boolean(raw json.RawMessage, into *bool) error {
	var b *bool
	if err := json.Unmarshal(raw, &b); err != nil || b == nil {
		return fmt.Errorf("takes true or false, not %s", shown(raw))
	}
	*into = *b
	return nil
}

func number(raw json.RawMessage, lo, hi int, into *int) error {
	n, err := strconv.Atoi(string(raw))
	if err != nil || n < lo || n > hi {
		return fmt.Errorf("takes a whole number from %d to %d, not %s", lo, hi, shown(raw))
	}
	*into = n
	return nil
}

// address reads where a server is. A name would have to be followed on its own.
func address(raw json.RawMessage, into *conf.Address) error {
	s, err := text(raw)
	if err != nil {
		return err
	}
	a, err := conf.ParseServerAddress(s)
	if err != nil {
		return err
	}
	if _, numeric := a.IP(); !numeric && !a.IsUnix() {
		return fmt.Errorf("%q is a name, and this file takes numeric addresses: for names write server %q { resolve = true } in the configuration", a.Host, s)
	}
	*into = a
	return nil
}

// name reads a name that log lines and metrics can carry: the configuration has
// the same rule.
func name(raw json.RawMessage, into *string) error {
	s, err := text(raw)
	switch {
	case err != nil:
		return err
	case s == "":
		return errors.New("it is empty: leave it out, and the address is the name")
	case len(s) > maxNameBytes:
		return fmt.Errorf("it has %d bytes, the limit is %d", len(s), maxNameBytes)
	case strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) || r == '"' || r == '\\' }):
		return fmt.Errorf("names stand in log lines and have no spaces, quotes or control characters: %.64q", s)
	}
	*into = s
	return nil
}

// wholeSeconds reads a fail_timeout: failures are counted in whole seconds.
func wholeSeconds(raw json.RawMessage, into *time.Duration) error {
	s, err := text(raw)
	if err != nil {
		return err
	}
	d := time.Duration(0)
	if s != "0s" {
		if d, err = conf.ParseDuration(s); err != nil {
			return err
		}
	}
	if d%time.Second != 0 {
		return fmt.Errorf("takes whole seconds, not %s", shown(raw))
	}
	*into = d
	return nil
}

func durationOrOff(raw json.RawMessage, into *time.Duration) error {
	s, err := text(raw)
	if err != nil {
		return err
	}
	if s == "off" {
		*into = conf.Off
		return nil
	}
	*into, err = conf.ParseDuration(s)
	return err
}
