package decisions

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/weirlb/weir/conf"
)

const (
	// Waiting is how many records can wait for the writer.
	Waiting = 1024

	// reportEvery bounds how often lost lines are reported.
	reportEvery = time.Minute
	// lookEvery is how often lost lines are looked for.
	lookEvery = time.Second
	// closePatience is how long Close waits for a log that does not answer.
	closePatience = 2 * time.Second
)

// Writer makes lines of the records of all workers.
type Writer struct {
	// immutable
	all     bool
	json    bool
	handler slog.Handler
	queue   chan Record   // closed by Close
	done    chan struct{} // closed when everything is written

	lost atomic.Uint64 // lines; any goroutine

	// owned by the writer's goroutine
	reported   uint64
	reportedAt time.Time
	writeError error // of a line lost since the last report
}

// Open starts a writer as the configuration says. It returns nil if decisions
// are not logged.
func Open(c *conf.Log, logger *slog.Logger) *Writer {
	if c.Decisions == conf.DecisionsOff {
		return nil
	}
	w := &Writer{
		all:     c.Decisions == conf.DecisionsAll,
		json:    c.Format == conf.JSON,
		handler: logger.Handler(),
		queue:   make(chan Record, Waiting),
		done:    make(chan struct{}),
	}
	go w.run()
	return w
}

// Wanted returns of which picks and failures somebody wants to know: what the log
// holds, or all of them if they are recorded too.
func (w *Writer) Wanted(recorded bool) conf.Decisions {
	switch {
	case recorded:
		return conf.DecisionsAll
	case w == nil:
		return conf.DecisionsOff
	case w.all:
		return conf.DecisionsAll
	}
	return conf.DecisionsFailures
}

// Put hands a record over if the log holds such ones, or counts it as lost if
// the writer is too far behind.
func (w *Writer) Put(r Record) {
	if w == nil || !w.all && r.isRoutine() {
		return
	}
	select {
	case w.queue <- r:
	default:
		w.lost.Add(1)
	}
}

// Lost returns how many lines were lost since the start.
func (w *Writer) Lost() uint64 {
	if w == nil {
		return 0
	}
	return w.lost.Load()
}

// Close writes what waits and ends the writer. A log that does not answer is
// given up after two seconds. Preconditions: nobody calls Put any more.
func (w *Writer) Close() {
	if w == nil {
		return
	}
	close(w.queue)
	select {
	case <-w.done:
	case <-time.After(closePatience):
	}
}

func (w *Writer) run() {
	defer close(w.done)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case r, ok := <-w.queue:
			if !ok {
				w.reportLost()
				return
			}
			w.write(&r)
		case <-tick.C:
			if time.Since(w.reportedAt) >= reportEvery {
				w.reportLost()
			}
		}
	}
}

func (w *Writer) write(r *Record) {
	level, said := r.sentence()
	attrs := []slog.Attr{
		slog.String("listener", r.Listener), slog.String("upstream", r.Upstream),
		slog.Uint64("session", r.Session), slog.String("client", r.Client.String()), slog.Int("attempt", r.Attempt),
	}
	if w.json {
		attrs = append(attrs, r.fields()...)
	}
	w.line(r.At.Wall(), level, said, attrs...)
}

// line writes a line. It asks no log level: see the package's doc.
func (w *Writer) line(at time.Time, level slog.Level, msg string, attrs ...slog.Attr) {
	line := slog.NewRecord(at, level, msg, 0)
	line.AddAttrs(attrs...)
	if err := w.handler.Handle(context.Background(), line); err != nil {
		w.lost.Add(1)
		w.writeError = err
	}
}

func (w *Writer) reportLost() {
	lost := w.lost.Load()
	if lost == w.reported {
		return
	}
	attrs := []slog.Attr{slog.Uint64("lines", lost-w.reported), slog.Uint64("total", lost)}
	if w.writeError != nil {
		attrs = append(attrs, slog.Any("error", w.writeError))
	}
	w.reported, w.reportedAt, w.writeError = lost, time.Now(), nil
	w.line(time.Now(), slog.LevelWarn, "decision log lost lines", attrs...)
}
