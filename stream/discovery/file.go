package discovery

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	maxFileBytes = 4 << 20
	// settleAfter is how long after an event the file is read: who writes it in
	// place may not be done at the first one.
	settleAfter = 100 * time.Millisecond
)

// file follows a server_file.
type file struct {
	// immutable
	path string
	poll time.Duration

	// owned by who asks
	last answer            // what the file said when it was last read
	sum  [sha256.Size]byte // of its bytes; zero = it could not be read
}

// ask reads the file. One that has not changed is not read for its meaning again.
func (f *file) ask(context.Context) answer {
	data, err := readFile(f.path)
	if err != nil {
		f.sum = [sha256.Size]byte{}
		return answer{again: f.poll, err: err}
	}
	sum := sha256.Sum256(data)
	if sum != f.sum {
		f.sum, f.last = sum, answer{again: f.poll}
		if f.last.set, f.last.err = parseServers(data); f.last.err == nil {
			f.last.learned = true
		}
	}
	return f.last
}

// readFile reads a whole file of a bearable size.
func readFile(path string) ([]byte, error) {
	// Without O_NONBLOCK a FIFO that nobody writes would hold up the open.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("read file: %w", cause(err))
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read file: %w", cause(err))
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("read file: it is no regular file")
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read file: %w", cause(err))
	}
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("read file: it has more than %d MiB", maxFileBytes>>20)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errors.New("read file: it is empty; a file without servers is {\"servers\":[]}")
	}
	return data, nil
}

// cause returns what is wrong without the path, which the log line has already.
func cause(err error) error {
	var e *fs.PathError
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// watch calls wake after a change in the file's directory: a write, another file
// renamed over it, or a link on the way swapped, as Kubernetes does with its
// volumes. What it does not see, the poll does.
func (f *file) watch(ctx context.Context, awake chan<- struct{}) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return // no inotify instance is left (fs.inotify.max_user_instances)
	}
	defer w.Close()
	dir := filepath.Dir(f.path)
	retry := time.NewTicker(f.poll)
	defer retry.Stop()
	var settled <-chan time.Time
	for {
		if !slices.Contains(w.WatchList(), dir) {
			// It may come later, or come back with another file in it.
			if err := w.Add(dir); err == nil {
				settled = time.After(settleAfter)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-settled:
			settled = nil
			select {
			case awake <- struct{}{}:
			default:
			}
			continue
		case <-retry.C:
			continue
		case <-w.Events:
		case <-w.Errors: // events may have been lost
		}
		if settled == nil {
			settled = time.After(settleAfter)
		}
	}
}
