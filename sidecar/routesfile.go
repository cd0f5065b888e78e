package sidecar

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/routesrv/routesrv/internal/durable"
	"github.com/routesrv/routesrv/table"
)

// routesFileRetry is how long after a write that failed the next is tried, if no new table comes before.
const routesFileRetry = 10 * time.Second

// routesFile is the served table as a file, for a proxy that reads one (-routes-file).
type routesFile struct {
	path    string // empty: there is none
	log     *slog.Logger
	changed chan struct{}

	mu      sync.Mutex   // guards what follows
	latest  *table.Table // to be written
	written time.Time
	lastErr string
}

// routesFileReport is the part of /status about the file.
type routesFileReport struct {
	Path    string    `json:"path"`
	Written time.Time `json:"written,omitzero"`
	Error   string    `json:"error,omitempty"`
}

func newRoutesFile(path string, log *slog.Logger) *routesFile {
	return &routesFile{path: path, log: log, changed: make(chan struct{}, 1)}
}

// save asks for t to be written. It does not wait; of tables that come faster than the disk the last is written.
func (f *routesFile) save(t *table.Table) {
	if f.path == "" {
		return
	}
	f.mu.Lock()
	f.latest = t
	f.mu.Unlock()
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// run writes until ctx ends. A disk that fails is no reason to stop serving.
func (f *routesFile) run(ctx context.Context) {
	durable.Tidy(f.path)
	retry := time.NewTimer(routesFileRetry)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.changed:
		case <-retry.C:
		}
		if !f.write() {
			retry.Reset(routesFileRetry)
		}
	}
}

// write writes the latest table, if there is one that the file has not.
func (f *routesFile) write() (ok bool) {
	f.mu.Lock()
	t := f.latest
	f.mu.Unlock()
	if t == nil {
		return true
	}
	err := durable.WriteFile(f.path, func(w io.Writer) error {
		if _, err := t.WriteTo(w); err != nil {
			return err
		}
		_, err := io.WriteString(w, "\n")
		return err
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		if f.lastErr == "" {
			f.log.Error("write routes file (--routes-file)", "path", f.path, "error", err)
		}
		f.lastErr = err.Error()
		return false
	}
	if f.latest == t {
		f.latest = nil
	}
	if f.lastErr != "" {
		f.log.Info("routes file written again", "path", f.path)
	}
	f.lastErr, f.written = "", time.Now()
	return true
}

func (f *routesFile) report() *routesFileReport {
	if f.path == "" {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return &routesFileReport{f.path, f.written, f.lastErr}
}
