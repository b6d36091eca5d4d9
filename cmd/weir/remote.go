package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/admin"
)

const (
	adminVariable = "WEIR_ADMIN"      // an address, as --admin
	tokenVariable = "WEIR_TOKEN_FILE" // a path, as --token-file
	watchEvery    = "2s"              // --watch without an interval
	watchAtLeast  = 100 * time.Millisecond
)

// remote is how a command talks to the weir that runs.
type remote struct {
	addr, tokenFile, config string
	json                    bool
	watch                   string // "" = once
}

// whereHelp tells how a command finds the weir that runs.
const whereHelp = `

It asks the weir that runs, at the address of --admin, else of the variable
` + adminVariable + `, else of the admin block of the configuration.`

func (r *remote) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&r.addr, "admin", "", "`ADDR` of the control API: unix:/path or host:port")
	f.StringVar(&r.tokenFile, "token-file", "", "`FILE` with the token of a TCP address")
	f.StringVarP(&r.config, "config", "c", defaultConfig, "configuration `FILE` whose admin block names the address")
	f.BoolVar(&r.json, "json", false, "print as JSON")
}

// watchFlag is for commands that only look.
func (r *remote) watchFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.watch, "watch", "", "look again every `INTERVAL` until interrupted (--watch=1s)")
	cmd.Flags().Lookup("watch").NoOptDefVal = watchEvery
}

// client returns a client of the control API.
func (r *remote) client() (*admin.Client, error) {
	addr, tokenFile, err := r.where()
	if err != nil {
		return nil, err
	}
	token := ""
	if tokenFile != "" && !addr.IsUnix() {
		if token, err = admin.ReadToken(tokenFile); err != nil {
			return nil, err
		}
	}
	return admin.NewClient(reachable(addr), token), nil
}

// where returns the address of the control API and the path of its token.
func (r *remote) where() (addr conf.Address, tokenFile string, err error) {
	named, by := r.addr, "--admin"
	if named == "" {
		named, by = os.Getenv(adminVariable), adminVariable
	}
	tokenFile = r.tokenFile
	if tokenFile == "" {
		tokenFile = os.Getenv(tokenVariable)
	}
	if named == "" {
		block, err := r.adminBlock()
		if err != nil {
			return addr, "", err
		}
		if tokenFile == "" {
			tokenFile = block.TokenFile
		}
		return block.Listen, tokenFile, nil
	}
	if strings.HasPrefix(named, "/") {
		named = "unix:" + named
	}
	if addr, err = conf.ParseServerAddress(named); err != nil {
		return addr, "", fmt.Errorf("%s: %w", by, err)
	}
	return addr, tokenFile, nil
}

// adminBlock reads the admin block of the configuration, which may have mistakes
// elsewhere.
func (r *remote) adminBlock() (*conf.Admin, error) {
	if _, err := os.Stat(r.config); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("where does weir run? There is no file %s here: name it with -c, or the address with --admin or %s", r.config, adminVariable)
	}
	result := readConfig(r.config)
	if result.Admin == nil {
		if result.Config == nil {
			return nil, fmt.Errorf("%s can't be read for its admin block: see weir check %s, or name the address with --admin", r.config, r.config)
		}
		return nil, fmt.Errorf("%s has no control API: add admin { listen = \"unix:/run/weir/admin.sock\" } and reload, or name the address with --admin", r.config)
	}
	return result.Admin, nil
}

// reachable returns the address to connect to for one that is listened on.
func reachable(a conf.Address) conf.Address {
	ip, ok := a.IP()
	switch {
	case !ok || !ip.IsUnspecified():
	case ip.Is4():
		a.Host = "127.0.0.1"
	default:
		a.Host = "::1"
	}
	return a
}

// show asks, and writes the answer as text or JSON, once or again and again.
func show[T any](cmd *cobra.Command, r *remote, ask func(context.Context, *admin.Client) (T, error), write func(io.Writer, T)) error {
	client, err := r.client()
	if err != nil {
		return failed(err)
	}
	once := func(ctx context.Context) ([]byte, error) {
		v, err := ask(ctx, client)
		if err != nil {
			return nil, err
		}
		var b bytes.Buffer
		if !r.json {
			write(&b, v)
			return b.Bytes(), nil
		}
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if r.watch == "" {
			e.SetIndent("", "  ")
		}
		err = e.Encode(v)
		return b.Bytes(), err
	}
	if r.watch != "" {
		return r.again(cmd, once)
	}
	text, err := once(cmd.Context())
	if err != nil {
		return refused(cmd, err)
	}
	if _, err = cmd.OutOrStdout().Write(text); err != nil {
		return failed(err)
	}
	return nil
}

// refused says why there is no answer, with the mistakes of a configuration.
func refused(cmd *cobra.Command, err error) error {
	var e *admin.Error
	switch {
	case !errors.As(err, &e):
	case e.Diagnostics != "":
		fmt.Fprintf(cmd.ErrOrStderr(), "%s\n\n", strings.TrimRight(e.Diagnostics, "\n"))
	case e.Status == http.StatusUnauthorized:
		err = fmt.Errorf("%w: name its file with --token-file or %s", err, tokenVariable)
	}
	return failed(err)
}

// again shows an answer in every interval until the command is interrupted. A
// weir that is restarted meanwhile is waited for.
func (r *remote) again(cmd *cobra.Command, once func(context.Context) ([]byte, error)) error {
	every, err := conf.ParseDuration(r.watch)
	if err != nil || every < watchAtLeast {
		return fmt.Errorf("--watch takes an interval of at least %s, such as --watch=1s", conf.FormatDuration(watchAtLeast))
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	text, err := once(ctx)
	if err != nil {
		return refused(cmd, err)
	}
	size := terminalSize(cmd.OutOrStdout())
	if r.json {
		size = nil
	}
	var screen demoScreen
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if err := r.draw(cmd.OutOrStdout(), &screen, size, text); err != nil {
			return failed(err)
		}
		select {
		case <-ctx.Done():
			if size != nil {
				return screen.close(cmd.OutOrStdout())
			}
			return nil
		case <-tick.C:
		}
		text, err = once(ctx)
		switch {
		case err == nil || ctx.Err() != nil:
		case r.json: // a program reads what is written
			fmt.Fprintln(cmd.ErrOrStderr(), err)
		default:
			text = []byte(err.Error() + "\n")
		}
	}
}

// draw writes one answer: over the one before on a terminal, below it elsewhere.
func (r *remote) draw(w io.Writer, screen *demoScreen, size func() (cols, rows int), text []byte) error {
	if size != nil {
		cols, rows := size()
		return screen.draw(w, strings.Split(strings.TrimRight(string(text), "\n"), "\n"), cols, rows)
	}
	if !r.json {
		text = append(text, '\n')
	}
	_, err := w.Write(text)
	return err
}
