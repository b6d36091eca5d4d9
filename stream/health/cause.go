package health

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
)

// A stepError is an error of the network, with what the check was doing.
type stepError struct {
	doing string // such as "waiting for the greeting"
	err   error
}

func (e *stepError) Error() string { return e.doing + ": " + plain(e.err) }
func (e *stepError) Unwrap() error { return e.err }

// doing tells what the check was doing when err came.
func doing(what string, err error) error { return &stepError{what, err} }

// cause returns the line that operators see about a check that has failed with
// err under ctx.
func cause(ctx context.Context, err error, timeout time.Duration, password string) string {
	text := err.Error()
	var step *stepError
	if errors.As(err, &step) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		text = fmt.Sprintf("timed out after %v %s", timeout, step.doing)
	}
	// Servers quote what they do not like, as Redis does with its AUTH.
	if password != "" {
		text = strings.ReplaceAll(text, password, "(hidden)")
	}
	return line(text)
}

// plain returns what is at the bottom of an error: what lies around it says
// which library was asked to do what, and with which address.
func plain(err error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "the server closed the connection"
	}
	for {
		next := errors.Unwrap(err)
		if list, ok := err.(interface{ Unwrap() []error }); ok {
			next = list.Unwrap()[0] // never empty
		}
		if next == nil {
			return err.Error()
		}
		err = next
	}
}

// line makes one short line of what a server may have written.
func line(text string) string {
	const most = 200 // bytes
	text = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}
