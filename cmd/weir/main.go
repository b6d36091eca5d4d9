// Command weir is an L4 stream load balancer.
//
// Exit codes: 0 means that the command did what it was asked to; 1 that the
// configuration is wrong or weir could not start; 2 that the command line is
// wrong; 3 that a second signal ended weir at once while sessions still ran.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
	exitCut    = 3
)

// exitError carries an exit code out of a command. A nil cause means that the
// command has already said what is wrong.
type exitError struct {
	code  int
	cause error
}

func (e *exitError) Error() string {
	if e.cause == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.cause.Error()
}

func (e *exitError) Unwrap() error { return e.cause }

// failed returns err with exit code 1.
func failed(err error) error { return &exitError{exitFailed, err} }

func main() { os.Exit(run()) }

func run() int {
	root := newRootCmd()
	err := root.Execute()
	if err == nil {
		return exitOK
	}
	var exit *exitError
	if errors.As(err, &exit) {
		if exit.cause != nil {
			fmt.Fprintln(os.Stderr, "weir:", exit.cause)
		}
		return exit.code
	}
	// Everything else comes from the parsing of the command line.
	fmt.Fprintf(os.Stderr, "weir: %v\nTry: weir --help\n", err)
	return exitUsage
}

func newRootCmd() *cobra.Command {
	root := &cobra.Command{
		Use:           "weir",
		Short:         "weir balances TCP and UDP sessions over servers, and says why it did it",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(newRunCmd(), newDemoCmd(), newCheckCmd(), newFmtCmd(), newSimulateCmd(), newVersionCmd())
	root.AddCommand(newStatusCmd(), newPeersCmd(), newSessionsCmd(), newCloseCmd(), newExplainCmd(), newReloadCmd(), newUpgradeCmd(), newDiffCmd(), newWeightCmd())
	root.AddCommand(newPeerCmds()...)
	return root
}
