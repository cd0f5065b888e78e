package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/internal/durable"
	"github.com/routesrv/routesrv/table"
)

// checkpointFile is the name of the checkpoint in the state folder. It is a valid eskip document.
const checkpointFile = "table.eskip"

// checkpointRetry is how long after a failed write the next is tried, if no new table comes before.
const checkpointRetry = 30 * time.Second

// checkpoint keeps the last table on disk, so that a restart while the API is down has something to serve.
type checkpoint struct {
	path    string
	origin  string
	log     *slog.Logger
	changed chan struct{}
	writes  *prometheus.CounterVec

	mu      sync.Mutex   // guards what follows
	latest  *table.Table // what is served
	onDisk  *table.Table // what the file has
	read    time.Time    // the last read that the file tells of
	written time.Time
	lastErr string
}

// checkpointReport is the part of /status about the checkpoint.
type checkpointReport struct {
	Path    string    `json:"path"`
	Written time.Time `json:"written,omitzero"`
	Error   string    `json:"error,omitempty"`
}

func newCheckpoint(dir, origin string, log *slog.Logger, reg prometheus.Registerer) *checkpoint {
	c := &checkpoint{
		path: filepath.Join(dir, checkpointFile), origin: origin, log: log.With("component", "checkpoint"),
		changed: make(chan struct{}, 1),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "routesrv_checkpoint_writes_total", Help: "Writes of the checkpoint by result: ok or error.",
		}, []string{"result"}),
	}
	c.writes.WithLabelValues("ok")
	c.writes.WithLabelValues("error")
	reg.MustRegister(c.writes)
	return c
}

func makeStateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("state folder (--state-dir): %w", err)
	}
	return nil
}

// load reads the checkpoint; nil if there is none. One that cannot be trusted is set aside and said so: it is never
// served and never deleted. Only a folder that cannot be used is an error.
func (c *checkpoint) load() (*table.Table, time.Time, error) {
	if err := makeStateDir(filepath.Dir(c.path)); err != nil {
		return nil, time.Time{}, err
	}
	data, err := os.ReadFile(c.path)
	if errors.Is(err, fs.ErrNotExist) {
		c.log.Info("no checkpoint yet", "path", c.path)
		return nil, time.Time{}, nil
	}
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read checkpoint (--state-dir): %w", err)
	}
	t, meta, err := table.ParseFile(data)
	if err != nil {
		aside, asideErr := durable.SetAside(c.path)
		c.log.Error("checkpoint is not usable, set aside and not served", "path", c.path, "error", err, "kept_as", aside,
			"set_aside_error", asideErr)
		return nil, time.Time{}, nil
	}
	c.latest, c.onDisk, c.read = t, t, meta.Saved // nobody else knows c yet
	c.log.Info("checkpoint loaded, served as stale until the source is read", "path", c.path, "count", t.Len(),
		"hash", t.Digest().String(), "last_read", meta.Saved, "origin", meta.Origin)
	return t, meta.Saved, nil
}

// save asks for the table to be written. It does not wait; of tables that come faster than the disk the last is written.
func (c *checkpoint) save(t *table.Table) {
	c.mu.Lock()
	c.latest = t
	c.mu.Unlock()
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// run writes what save asks for until ctx ends, and once more then, for the time of the last read. A disk that fails
// is said, is tried again, and is no reason to stop serving.
func (c *checkpoint) run(ctx context.Context, lastRead func() time.Time) {
	retry := time.NewTimer(checkpointRetry)
	defer retry.Stop()
	for {
		retry.Stop()
		if c.failing() {
			retry.Reset(checkpointRetry)
		}
		select {
		case <-c.changed:
		case <-retry.C:
		case <-ctx.Done():
			c.write(lastRead())
			return
		}
		c.write(lastRead())
	}
}

func (c *checkpoint) failing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lastErr != ""
}

// write writes the latest table, with the time of the last read, if the file does not have them yet.
func (c *checkpoint) write(read time.Time) {
	c.mu.Lock()
	t, onDisk, known := c.latest, c.onDisk, c.read
	c.mu.Unlock()
	if t == nil {
		return
	}
	for _, at := range []time.Time{known, t.Time()} {
		if at.After(read) {
			read = at // no read of this process is known yet
		}
	}
	if t == onDisk && read.Equal(known) {
		return
	}
	err := durable.WriteFile(c.path, func(w io.Writer) error {
		return t.WriteFile(w, table.FileMeta{Saved: read, Origin: c.origin})
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.lastErr = err.Error()
		c.writes.WithLabelValues("error").Inc()
		c.log.Error("write checkpoint (--state-dir)", "path", c.path, "error", err)
		return
	}
	if c.lastErr != "" {
		c.log.Info("checkpoint written again", "path", c.path)
	}
	c.onDisk, c.read, c.lastErr, c.written = t, read, "", time.Now()
	c.writes.WithLabelValues("ok").Inc()
}

func (c *checkpoint) report() *checkpointReport {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &checkpointReport{Path: c.path, Written: c.written, Error: c.lastErr}
}
