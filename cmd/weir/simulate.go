package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/conf/hclfile"
	"github.com/weirlb/weir/stream/simulate"
)

// simulateHelp tells all that there is to know of scripts and traces.
const simulateHelp = `Simulate runs an upstream of a configuration without a network: the balancer's
own code, with a clock that moves when it is told to and servers that do as
they are told. It shows each pick with its reason. SCRIPT says what happens,
one event a line or with semicolons between them; # begins a comment; - reads
it from standard input, --script FILE from a file.

  connect [N] [from ADDR] [hold]
                     N sessions (1), one after another. They come from 127.0.0.1,
                     or from ADDR: an address, address:port or unix. 10.0.0.1+
                     gives each session the next address, 10.0.0.1:50000+ the
                     next port. With hold they stay open, and are numbered
                     1, 2, 3... in the order of the script (also those
                     that get no peer)
  close 3, close 2-5, close all, close PEER
                     end held sessions
  fail PEER...       connections are refused from now on
  hang PEER...       connections are not answered: connect_timeout passes
  slow PEER TIME     connections and the first byte take that long
  heal PEER...       connections are accepted again, at once
  down PEER...       the operator takes peers out,
  drain PEER...      gives them no new sessions,
  up PEER...         and puts them back
  wait TIME          the clock moves on: 250ms, 10s, 5m, 1h
  show               the state of all peers
  table every N, table at N,M,...
                     from here on counts the sessions of each peer, to be shown
                     after every N connects, or after these numbers of connects

A peer goes by its name or its address, in double quotes if it has blanks.
connect_timeout and next_upstream are those of the first listener that uses the
upstream, or of --listener. Host names are not resolved: each counts as one
peer. (Methods that hash the servers' addresses, as maglev does, may then differ.)
Health checks are not made: all peers are healthy, and with exactly_one the first
that is up has the role.
Of a connect with more than 20 sessions the first 10 are shown, unless --verbose.
All sessions are TCP's.

With --json each event and each session is one JSON object:
  t_ms, event        when, in ms since the start, and the event's word
  session            connect: its number; held: its number among the held ones
  client             where it came from
  attempts           [{peer, ok, fate, failure}], fate being connected, refused or
                     timed out, and failure what that has cost the peer: sentence,
                     fails, max_fails, effective_before, effective_after,
                     unavailable_until_ms
  status             200, or 502 if no peer was connected to
  decisions          one for each pick, the last of which may have found no peer:
                     peer, sentence, by, tied, fallback, key, backup,
                     probes [{at, hash, peer, left_out}],
                     candidates [{peer, weight, effective, current_before,
                     current_after, conns, max_conns, fails, max_fails, score,
                     in_tie, left_out, unavailable_until_ms}]
  weights            afterwards: [{peer, current, effective, conns, fails}]
  peers, ms, closed  other events: which peers, how long, how many sessions
The last line is {"totals": {t_ms, connects, nobody, peers [{peer, sessions,
share, ideal, difference, failed_attempts}]}}; a table has rows of the same kind.

With --trace it replays a recording of another balancer, to compare what weir
does in its place; - is standard input. The fields of a recording are described
in stream/simulate/testdata/nginx-1.31.3/README.md; what it expects is ignored.
Each step that picks becomes a line
  {"step": 0, "expect": ["a", "b"], "status": 200, "busy": false}
with the attempted peers in order, the status as nginx has it (null while it is
not known), and whether the session ended because no peer was eligible. With
--state every step has its line, with the state after it: weights_after
[current, effective], fails_after, conns_after, checked_after, accessed_after,
and for least_time avg_after and inflight_after. A recording without steps
gives one line, {"totals": {"a": 1020, "b": 980}}.

Exit codes: 0 it ran, whatever came of the sessions; 1 the configuration, the
script or the recording is wrong; 2 bad command line.`

// simulation is one run of weir simulate.
type simulation struct {
	config, upstream, listener string
	scriptFile, trace          string
	seed                       uint64
	json, verbose, state       bool
	script                     []string // arguments

	in       io.Reader
	out, err io.Writer
}

func newSimulateCmd() *cobra.Command {
	var s simulation
	cmd := &cobra.Command{
		Use:   "simulate [-c FILE] [--upstream NAME] SCRIPT | --script FILE | --trace FILE",
		Short: "show what an upstream would do, without a network",
		Long:  simulateHelp,
		Example: `  weir simulate -c weir.hcl --upstream db 'connect 5; fail a; connect 5; wait 11s; heal a; connect 5'
  weir simulate -c weir.hcl --script night.weir
  weir simulate --trace recording.json --state`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s.script = args
			s.in, s.out, s.err = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
			if err := s.check(cmd.Flags().Changed); err != nil {
				return err
			}
			if s.trace != "" {
				return s.runTrace()
			}
			return s.runScript()
		},
	}
	f := cmd.Flags()
	f.StringVarP(&s.config, "config", "c", defaultConfig, "configuration `FILE`")
	f.StringVar(&s.upstream, "upstream", "", "the upstream's `NAME`; not needed if there is only one")
	f.StringVar(&s.listener, "listener", "", "`NAME` of the listener whose timeouts and tries count")
	f.StringVar(&s.scriptFile, "script", "", "read the script from `FILE`")
	f.Uint64Var(&s.seed, "seed", 1, "`NUMBER` that methods draw their lots from")
	f.BoolVar(&s.json, "json", false, "one JSON object for each event and session")
	f.BoolVar(&s.verbose, "verbose", false, "show every session of a connect")
	f.StringVar(&s.trace, "trace", "", "replay the recording in `FILE`")
	f.BoolVar(&s.state, "state", false, "with --trace: a line for every step, with the state after it")
	return cmd
}

// check looks for what does not go together on the command line.
func (s *simulation) check(given func(flag string) bool) error {
	if given("trace") {
		for _, flag := range []string{"config", "upstream", "listener", "script", "json", "verbose"} {
			if given(flag) {
				return fmt.Errorf("--trace brings its own upstream and events: leave out --%s", flag)
			}
		}
		if len(s.script) > 0 {
			return errors.New("--trace brings its own events: leave out the script")
		}
		if s.trace == "" {
			return errors.New("--trace needs a file")
		}
		return nil
	}
	switch {
	case s.state:
		return errors.New("--state is for --trace; a script has show")
	case given("script") && len(s.script) > 0:
		return errors.New("give one script: as argument or with --script")
	case !given("script") && len(s.script) == 0:
		return errors.New(`what shall happen? Give a script such as "connect 10", or --script FILE, or --trace FILE`)
	case s.json && s.verbose:
		return errors.New("--json tells every session anyway: leave out --verbose")
	}
	return nil
}

func (s *simulation) runTrace() error {
	name, in, err := s.open(s.trace)
	if err != nil {
		return failed(err)
	}
	defer in.Close()
	t, err := simulate.ReadTrace(in)
	if err != nil {
		return failed(fmt.Errorf("%s: %w", name, err))
	}
	out := bufio.NewWriter(s.out)
	err = t.WriteReplay(out, s.seed, s.state)
	if err := out.Flush(); err != nil { // also what came before a step that can't be
		return failed(err)
	}
	if err != nil {
		return failed(fmt.Errorf("%s: %w", name, err))
	}
	return nil
}

// open opens a file, or standard input for -, and returns what to call it.
func (s *simulation) open(path string) (name string, r io.ReadCloser, err error) {
	if path == "-" {
		return "<stdin>", io.NopCloser(s.in), nil
	}
	f, err := os.Open(path)
	return path, f, err
}

func (s *simulation) runScript() error {
	name, text, err := s.readScript()
	if err != nil {
		return failed(err)
	}
	c := loadConfig(s.err, s.config).Config
	if c == nil {
		return &exitError{code: exitFailed}
	}
	u, l, err := s.choose(c)
	if err != nil {
		return failed(fmt.Errorf("%s: %w", s.config, err))
	}
	sim, err := simulate.New(u, l, s.seed)
	if err != nil {
		return failed(err)
	}
	script, mistakes := sim.ParseScript(text)
	if script == nil {
		s.report(name, text, mistakes)
		return &exitError{code: exitFailed}
	}
	format := simulate.Text
	switch {
	case s.json:
		format = simulate.JSON
	case s.verbose:
		format = simulate.Verbose
	}
	if err := sim.Run(script, s.out, format); err != nil {
		return failed(err)
	}
	return nil
}

// readScript returns the script and what to call it.
func (s *simulation) readScript() (name, text string, err error) {
	if len(s.script) == 1 && s.script[0] != "-" {
		return "script", s.script[0], nil
	}
	path := "-"
	if len(s.script) == 0 {
		path = s.scriptFile
	}
	name, in, err := s.open(path)
	if err != nil {
		return "", "", err
	}
	defer in.Close()
	var b bytes.Buffer
	_, err = b.ReadFrom(io.LimitReader(in, simulate.MaxScriptBytes+1))
	return name, b.String(), err
}

// choose finds the upstream and the listener; the latter is nil if no listener
// uses the upstream.
func (s *simulation) choose(c *conf.Config) (*conf.Upstream, *conf.Listener, error) {
	var listener *conf.Listener
	for i := range c.Listeners {
		if l := &c.Listeners[i]; l.Name == s.listener {
			listener = l
		}
	}
	if s.listener != "" && listener == nil {
		var names []string
		for _, l := range c.Listeners {
			names = append(names, l.Name)
		}
		return nil, nil, fmt.Errorf("there is no listener %q; the file has %s", s.listener, strings.Join(names, ", "))
	}
	name := s.upstream
	switch {
	case name != "":
	case listener != nil:
		name = listener.Upstream
	case len(c.Upstreams) == 1:
		name = c.Upstreams[0].Name
	}
	u := c.Upstream(name)
	if u == nil {
		var names []string
		for _, u := range c.Upstreams {
			names = append(names, u.Name)
		}
		if name == "" {
			return nil, nil, fmt.Errorf("which upstream? Choose with --upstream: the file has %s", strings.Join(names, ", "))
		}
		return nil, nil, fmt.Errorf("there is no upstream %q; the file has %s", name, strings.Join(names, ", "))
	}
	for i := range c.Listeners {
		if l := &c.Listeners[i]; listener == nil && l.Upstream == u.Name {
			listener = l
		}
	}
	if listener != nil && listener.Upstream != u.Name {
		return nil, nil, fmt.Errorf("listener %q uses upstream %q, not %q", listener.Name, listener.Upstream, u.Name)
	}
	return u, listener, nil
}

// report writes a script's mistakes as those of a configuration are written.
func (s *simulation) report(name, text string, mistakes []simulate.Mistake) {
	var diags hcl.Diagnostics
	for _, m := range mistakes {
		diags = append(diags, &hcl.Diagnostic{
			Severity: hcl.DiagError, Summary: m.What, Detail: m.Hint,
			Subject: &hcl.Range{
				Filename: name,
				Start:    hcl.Pos{Line: m.Line, Column: m.Column, Byte: m.Start},
				End:      hcl.Pos{Line: m.Line, Column: m.EndColumn, Byte: m.End},
			},
		})
	}
	hclfile.WriteDiagnostics(s.err, diags, name, []byte(text), isColorTerminal(s.err))
	switch n := len(mistakes); {
	case n == simulate.MaxMistakes:
		fmt.Fprintf(s.err, "\n%s: %s, and there may be more\n", name, count(n, "error"))
	case n > 1:
		fmt.Fprintf(s.err, "\n%s: %s\n", name, count(n, "error"))
	}
	if len(s.script) == 1 {
		if _, err := os.Stat(text); err == nil {
			fmt.Fprintf(s.err, "\n%s is a file: write --script %s\n", text, text)
		}
	}
}
