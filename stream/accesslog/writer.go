package accesslog

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlb/weir/conf"
)

const (
	// gather is how long the writer lets lines come together after a write.
	gather = 5 * time.Millisecond
	// complainEvery bounds how often lost lines and failed writes are reported.
	complainEvery = time.Minute
	// batchBytes is how much is formatted before it is written.
	batchBytes = 64 << 10
)

// Writer formats and writes the records of all workers.
type Writer struct {
	// immutable
	line   []field
	append func(b []byte, line []field, r *Record, scratch []byte) []byte
	rings  []*Ring
	path   string // "" = out is not ours to reopen
	logger *slog.Logger
	bell   chan struct{} // capacity 1
	quit   chan struct{}
	done   chan struct{}

	asleep atomic.Bool   // the next Put must ring the bell
	lost   atomic.Uint64 // lines whose write failed

	mu  sync.Mutex
	out io.Writer // guarded by mu

	// owned by the writer's goroutine
	reported   uint64
	reportedAt time.Time
	writeError error
	batch      []byte
	scratch    [512]byte
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
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
	if err != nil {
		return nil, fmt.Errorf("open access log: %w", err)
	}
	return f, nil
}

func start(c *conf.Log, out io.Writer, path string, workers int, logger *slog.Logger) *Writer {
	w := &Writer{
		line:   compile(c.Fields),
		append: appendText,
		path:   path,
		logger: logger,
		bell:   make(chan struct{}, 1),
		quit:   make(chan struct{}),
		done:   make(chan struct{}),
		out:    out,
	}
	if c.Format == conf.JSON {
		w.append = appendJSON
	}
	for range workers {
		w.rings = append(w.rings, &Ring{writer: w, records: make([]Record, RingRecords)})
	}
	go w.run()
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
	w.mu.Lock()
	old := w.out.(*os.File)
	w.out = f
	w.mu.Unlock()
	return old.Close()
}

// Lost returns how many lines were lost since the start.
func (w *Writer) Lost() uint64 {
	if w == nil {
		return 0
	}
	n := w.lost.Load()
	for _, r := range w.rings {
		n += r.lost.Load()
	}
	return n
}

// Close writes what waits and ends the writer. Preconditions: no worker puts
// records any more.
func (w *Writer) Close() error {
	if w == nil {
		return nil
	}
	close(w.quit)
	<-w.done
	if f, ok := w.out.(*os.File); ok && w.path != "" {
		return f.Close()
	}
	return nil
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
			w.complain(true)
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
		lines := uint64(0)
		ring.take(func(r *Record) {
			w.batch = w.append(w.batch, w.line, r, w.scratch[:])
			if lines++; len(w.batch) >= batchBytes {
				w.flush(lines)
				lines = 0
			}
		})
		w.flush(lines)
	}
	w.complain(false)
}

func (w *Writer) flush(lines uint64) {
	if len(w.batch) == 0 {
		return
	}
	w.mu.Lock()
	_, err := w.out.Write(w.batch)
	w.mu.Unlock()
	w.batch = w.batch[:0]
	if err != nil {
		w.lost.Add(lines)
		w.writeError = err
	}
}

// complain reports lost lines, at most once in complainEvery.
func (w *Writer) complain(last bool) {
	lost := w.Lost()
	if lost == w.reported || !last && time.Since(w.reportedAt) < complainEvery {
		return
	}
	args := []any{"lines", lost - w.reported, "total", lost}
	if w.writeError != nil {
		args = append(args, "error", w.writeError)
	}
	w.logger.Warn("access log lost lines", args...)
	w.reported, w.reportedAt, w.writeError = lost, time.Now(), nil
}
