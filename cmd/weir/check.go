package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/conf/hclfile"
	"github.com/weirlb/weir/stream"
)

// defaultConfig is the configuration that is read if none is named.
const defaultConfig = "weir.hcl"

// checker is one run of weir check.
type checker struct {
	effective, showSecrets bool
	out, err               io.Writer
}

func newCheckCmd() *cobra.Command {
	var config string
	var c checker
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "check a configuration without starting anything",
		Long: `Check reads a configuration and reports every mistake in it, and what is
legal but probably not meant. It opens no socket and resolves no name. The
file is ` + defaultConfig + ` unless one is named.

With --effective it prints the configuration that results, as a file in which
every value is written out: defaults, and those that profiles set, too. The
passwords of health checks are hidden in it unless --show-secrets is given;
what their steps send is shown.`,
		Example: "  weir check\n  weir check /etc/weir/weir.hcl\n  weir check --effective | less",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := config
			if len(args) == 1 {
				if cmd.Flags().Changed("config") {
					return errors.New("name the file once: as argument or with -c")
				}
				path = args[0]
			}
			if c.showSecrets && !c.effective {
				return errors.New("--show-secrets goes with --effective")
			}
			c.out, c.err = cmd.OutOrStdout(), cmd.ErrOrStderr()
			return c.run(path)
		},
	}
	cmd.Flags().BoolVar(&c.effective, "effective", false, "print the configuration with every value written out")
	cmd.Flags().BoolVar(&c.showSecrets, "show-secrets", false, "print passwords too, with --effective")
	cmd.Flags().StringVarP(&config, "config", "c", defaultConfig, "configuration `FILE`")
	return cmd
}

func (ch *checker) run(path string) error {
	r := loadConfig(ch.err, path)
	c := r.Config
	if c == nil {
		return &exitError{code: exitFailed}
	}
	if ch.effective {
		if _, err := ch.out.Write(hclfile.Effective(c, ch.showSecrets)); err != nil {
			return failed(err)
		}
		return nil
	}
	servers := 0
	for _, u := range c.Upstreams {
		servers += len(u.Servers)
	}
	line := fmt.Sprintf("%s: ok, %s, %s, %s", path, count(len(c.Listeners), "listener"), count(len(c.Upstreams), "upstream"), count(servers, "server"))
	if n := r.Warnings(); n > 0 {
		line += ", " + count(n, "warning")
	}
	fmt.Fprintln(ch.out, line)
	for _, note := range r.Notes() {
		fmt.Fprintln(ch.out, " ", note)
	}
	return nil
}

// loadConfig reads a configuration and writes what there is to say about it.
// The result's Config is nil if it can't be used.
func loadConfig(stderr io.Writer, path string) *hclfile.Result {
	r := readConfig(path)
	reportConfig(stderr, path, r)
	return r
}

// readConfig reads a configuration for this machine.
func readConfig(path string) *hclfile.Result {
	return hclfile.Load(path, hclfile.Options{Env: os.LookupEnv, Limits: readLimits()})
}

// reportConfig writes what there is to say about a configuration.
func reportConfig(stderr io.Writer, path string, r *hclfile.Result) {
	r.WriteDiagnostics(stderr, isColorTerminal(stderr))
	if r.Config == nil {
		if n := countErrors(r.Diagnostics); n > 1 {
			fmt.Fprintf(stderr, "\n%s: %s\n", path, count(n, "error"))
		}
	}
}

func countErrors(diags hcl.Diagnostics) int {
	n := 0
	for _, d := range diags {
		if d.Severity == hcl.DiagError {
			n++
		}
	}
	return n
}

// count writes a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// isColorTerminal reports whether what is written may be coloured.
func isColorTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isTerminal(f)
}

// isTerminal reports whether a file is a terminal that shows colours; see
// https://no-color.org for the variable.
func isTerminal(f *os.File) bool {
	if os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// readLimits reads the limits that lints compare a configuration with. What
// can't be read stays unknown.
func readLimits() hclfile.Limits {
	l := hclfile.Limits{Workers: stream.CPUs(os.DirFS("/"))}
	var files unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) == nil {
		l.OpenFiles = files.Max
	}
	if n := sysctl("net/core/somaxconn"); len(n) == 1 {
		l.SomaxConn = n[0]
	}
	if n := sysctl("net/ipv4/ip_local_port_range"); len(n) == 2 {
		l.FirstPort, l.LastPort = n[0], n[1]
	}
	// Capabilities lift the limit on pipes (pipe(7)); root has them as a rule.
	if n := sysctl("fs/pipe-user-pages-soft"); len(n) == 1 && os.Geteuid() != 0 {
		l.PipePagesSoft = n[0]
	}
	return l
}

// sysctl returns the numbers of a file below /proc/sys, or nil.
func sysctl(name string) []int {
	text, err := os.ReadFile("/proc/sys/" + name)
	if err != nil {
		return nil
	}
	var out []int
	for _, field := range strings.Fields(string(text)) {
		n, err := strconv.Atoi(field)
		if err != nil {
			return nil
		}
		out = append(out, n)
	}
	return out
}
