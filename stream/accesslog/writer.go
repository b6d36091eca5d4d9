package accesslog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/weirlb/weir/conf"
)

const (
	// gather is how long the writer lets lines come together after a write.
	gather = 5 * time.Millisecond
	// reportEvery bounds how often lost lines and failed writes are reported.
	reportEvery = time.Minute
	// lookEvery is how often lost lines are looked for.
	lookEvery = time.Second
	// closePatience is how long Close waits for a disk that does not answer.
	closePatience = 2 * time.Second
	// batchBytes is how much is formatted before it is written.
	batchBytes = 64 << 10
)

// Writer formats and writes the records of all workers.
type Writer struct {
	// immutable
	line   []field
	append func(b []byte, line []field, r *Record, scratch []byte) []byte
	rings  []*Ring
	path   string // "" = out is not ours to reopen and close
	logger *slog.Logger
	bell   chan struct{} // capacity 1
	quit   chan struct{} // closed by Close
	done   chan struct{} // closed when everything is written

	// atomic, any goroutine
	asleep     atomic.Bool   // the next Put must ring the bell
	failed     atomic.Uint64 // lines that could not be written
	writeError atomic.Pointer[error]
	out        atomic.Pointer[output]

	reporter reporter

	// owned by the writer's goroutine
	batch   []byte
	scratch [512]byte
}

// output is where lines go. Reopen puts another in its place while a write to
// the old one may still be under way.
type output struct {
	io.Writer
}

// reporter tells of lost lines. It has a goroutine of its own, since the
// writer's may be stuck in the very write that loses them.
type reporter struct {
	stop chan struct{}
	done chan struct{}

	// owned by the goroutine
	reported uint64
	at       time.Time
}

// Open starts a writer for that many workers as the configuration says. It
// returns nil if the access log is off.
func Open(c *conf.Log, workers int, logger *slog.Logger) (*Writer, error) {
	switch c.Access {
	case conf.AccessOff:
		return nil, nil
	case conf.AccessStdout:
		return start(c, os.Stdout, "", workers, logger), nil
	case conf.AccessStderr:
		return start(c, os.Stderr, "", workers, logger), nil
	}
	f, err := openFile(c.Access)
	if err != nil {
		return nil, err
	}
	return start(c, f, c.Access, workers, logger), nil
}

func openFile(path string) (*os.File, error) {
	// Without O_NONBLOCK a FIFO that nobody reads would hold up the open.
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK, 0o640)
	if errors.Is(err, syscall.ENXIO) {
		return nil, fmt.Errorf("open access log: %w (a FIFO needs a reader first)", err)
	}
	if err != nil {
		return nil, fmt.Errorf("open access log: %w", err)
	}
	return f, nil
}

func start(c *conf.Log, out io.Writer, path string, workers int, logger *slog.Logger) *Writer {
	w := &Writer{
		line:     compile(c.Fields),
		append:   appendText,
		path:     path,
		logger:   logger,
		bell:     make(chan struct{}, 1),
		quit:     make(chan struct{}),
		done:     make(chan struct{}),
		reporter: reporter{stop: make(chan struct{}), done: make(chan struct{})},
	}
	w.out.Store(&output{out})
	if c.Format == conf.JSON {
		w.append = appendJSON
	}
	for range workers {
		w.rings = append(w.rings, &Ring{writer: w, records: make([]Record, RingRecords)})
	}
	go w.run()
	go w.report()
	return w
}

// Ring returns the ring of that worker, or nil if w is nil.
func (w *Writer) Ring(worker int) *Ring {
	if w == nil {
		return nil
	}
	return w.rings[worker]
}

// Wants reports whether lines hold any of the variables.
func (w *Writer) Wants(vars ...conf.Variable) bool {
	if w == nil {
		return false
	}
	for i := range w.line {
		for _, v := range vars {
			if w.line[i].name == string(v) {
				return true
			}
		}
	}
	return false
}

// Reopen opens the file anew by its path, for log rotation. It does nothing
// for standard output and error.
func (w *Writer) Reopen() error {
	if w == nil || w.path == "" {
		return nil
	}
	f, err := openFile(w.path)
	if err != nil {
		return err
	}
	// Closing the old file also ends a write to it that is stuck.
	return w.out.Swap(&output{f}).Writer.(*os.File).Close()
}

// Lost returns how many lines were lost since the start.
func (w *Writer) Lost() uint64 {
	if w == nil {
		return 0
	}
	n := w.failed.Load()
	for _, r := range w.rings {
		n += r.lost.Load()
	}
	return n
}

// Close writes what waits and ends the writer. A disk that does not answer is
// given up after two seconds and its lines are lost. Preconditions: no worker
// puts records any more.
func (w *Writer) Close() error {
	if w == nil {
		return nil
	}
	close(w.quit)
	select {
	case <-w.done:
	case <-time.After(closePatience):
	}
	var err error
	if w.path != "" {
		err = w.out.Load().Writer.(*os.File).Close()
	}
	select {
	case <-w.done: // closing the file has freed it, if nothing else did
	case <-time.After(closePatience / 10):
		for _, r := range w.rings {
			w.failed.Add(r.head.Load() - r.tail.Load())
		}
	}
	close(w.reporter.stop)
	<-w.reporter.done
	return err
}

// wake rings the bell if the writer sleeps.
func (w *Writer) wake() {
	if w.asleep.Load() && w.asleep.CompareAndSwap(true, false) {
		select {
		case w.bell <- struct{}{}:
		default:
		}
	}
}

func (w *Writer) run() {
	defer close(w.done)
	for {
		w.drain()
		w.asleep.Store(true)
		if w.waiting() {
			// A record came in before the flag was up; its Put rang no bell.
			w.asleep.Store(false)
			continue
		}
		select {
		case <-w.bell:
			time.Sleep(gather)
		case <-w.quit:
			w.drain()
			return
		}
	}
}

func (w *Writer) waiting() bool {
	for _, r := range w.rings {
		if r.head.Load() != r.tail.Load() {
			return true
		}
	}
	return false
}

// drain writes everything that waits.
func (w *Writer) drain() {
	for _, ring := range w.rings {
		ring.take(func(r *Record) {
			w.batch = w.append(w.batch, w.line, r, w.scratch[:])
			if len(w.batch) >= batchBytes {
				w.flush()
			}
		})
		w.flush()
	}
}

// flush writes the batch. If the output was replaced meanwhile, the lines that
// the old one did not take go to the new one.
func (w *Writer) flush() {
	rest := w.batch
	for len(rest) > 0 {
		out := w.out.Load()
		n, err := out.Write(rest)
		if err == nil {
			break
		}
		rest = rest[bytes.LastIndexByte(rest[:n], '\n')+1:]
		if w.out.Load() == out {
			w.failed.Add(uint64(bytes.Count(rest, []byte{'\n'})))
			w.writeError.Store(&err)
			break
		}
	}
	w.batch = w.batch[:0]
}

// report tells of lost lines, at most once in reportEvery, and at the end.
func (w *Writer) report() {
	defer close(w.reporter.done)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if time.Since(w.reporter.at) >= reportEvery {
				w.reportLost()
			}
		case <-w.reporter.stop:
			w.reportLost()
			return
		}
	}
}

func (w *Writer) reportLost() {
	lost := w.Lost()
	if lost == w.reporter.reported {
		return
	}
	args := []any{"lines", lost - w.reporter.reported, "total", lost}
	if err := w.writeError.Swap(nil); err != nil {
		args = append(args, "error", *err)
	}
	w.logger.Warn("access log lost lines", args...)
	w.reporter.reported, w.reporter.at = lost, time.Now()
}
