package server

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/internal/durable"
	"github.com/routesrv/routesrv/proxysafe"
	"github.com/routesrv/routesrv/table"
)

// checkpointFile is the name of the checkpoint in the state folder. It is a valid eskip document.
const checkpointFile = "table.eskip"

// checkpointRetry is how long after a failed write the next is tried, if no new table comes before.
const checkpointRetry = 30 * time.Second

// checkpoint keeps the last table on disk, so that a restart while the API is down has something to serve.
type checkpoint struct {
	path    string
	store   *durable.Store
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
	// why what was found at the path could not be used, and the name that it has now; empty if nothing was wrong
	unusable, keptAs string
}

// checkpointReport is the part of /status about the checkpoint.
type checkpointReport struct {
	Path    string    `json:"path"`
	Written time.Time `json:"written,omitzero"`
	Error   string    `json:"error,omitempty"` // of the last attempt to write it
	// Unusable says why what was found at the start could not be used, KeptAs how it is called now. Without KeptAs it is where
	// it was, and Path is another name.
	Unusable string `json:"unusable,omitempty"`
	KeptAs   string `json:"kept_as,omitempty"`
}

func newCheckpoint(dir, origin string, log *slog.Logger, reg prometheus.Registerer) *checkpoint {
	c := &checkpoint{
		path: filepath.Join(dir, checkpointFile), store: durable.NewStore(filepath.Join(dir, checkpointFile)), origin: origin, log: log.With("component", "checkpoint"),
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

// maxCheckpoint bounds a checkpoint that is loaded. A server whose table is larger starts without one.
const maxCheckpoint = 1 << 30

// makeStateDir makes the folder of the checkpoint.
func makeStateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("state folder (--state-dir): %w", err)
	}
	return nil
}

// load reads the checkpoint; nil if there is none. Whatever is in its place, or in that of the folder, is no reason not to
// start: what cannot be trusted is set aside, or another name used, and the log and the status say so once.
func (c *checkpoint) load() (*table.Table, time.Time) {
	if err := makeStateDir(filepath.Dir(c.path)); err != nil {
		c.failed(err)
		return nil, time.Time{}
	}
	var t *table.Table
	var meta table.FileMeta
	found, troubles := c.store.Load(maxCheckpoint, func(r io.Reader, size int64) (err error) {
		if t, meta, err = table.ReadFile(r, size); err != nil {
			return err
		}
		return proxysafe.CheckTable(nil, t) // written by a version that did not check
	})
	for i, trouble := range troubles {
		attrs := []any{"path", trouble.Path, "error", trouble.Err}
		if trouble.KeptAs != "" {
			attrs = append(attrs, "kept_as", trouble.KeptAs)
		} else {
			attrs = append(attrs, "set_aside_error", trouble.MoveErr, "used_instead", trouble.Instead)
		}
		c.log.Error("checkpoint is not usable, set aside and not served", attrs...)
		if i == 0 {
			c.unusable, c.keptAs = trouble.Err.Error(), trouble.KeptAs
		}
	}
	if !found {
		if len(troubles) == 0 {
			c.log.Info("no checkpoint yet", "path", c.path)
		}
		return nil, time.Time{}
	}
	c.latest, c.read = t, meta.Saved // nobody else knows c yet
	if c.store.Loaded() {
		c.onDisk = t
	}
	c.log.Info("checkpoint loaded, served as stale until the source is read", "path", c.path, "count", t.Len(),
		"hash", t.Digest().String(), "last_read", meta.Saved, "origin", meta.Origin)
	return t, meta.Saved
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
	err := makeStateDir(filepath.Dir(c.path))
	if err == nil {
		err = c.store.Write(func(w io.Writer) error {
			return t.WriteFile(w, table.FileMeta{Saved: read, Origin: c.origin})
		})
	}
	if err != nil {
		c.failed(err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lastErr != "" {
		c.log.Info("checkpoint written again", "path", c.path)
	}
	c.onDisk, c.read, c.lastErr, c.written = t, read, "", time.Now()
	c.writes.WithLabelValues("ok").Inc()
}

// failed notes that the file or its folder could not be used. It says so when it begins.
func (c *checkpoint) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes.WithLabelValues("error").Inc()
	if c.lastErr == "" {
		c.log.Error("write checkpoint (--state-dir)", "path", c.path, "error", err)
	}
	c.lastErr = err.Error()
}

func (c *checkpoint) report() *checkpointReport {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &checkpointReport{
		Path: c.store.Path(), Written: c.written, Error: c.lastErr, Unusable: c.unusable, KeptAs: c.keptAs,
	}
}
