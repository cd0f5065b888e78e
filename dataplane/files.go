package dataplane

import (
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/routesrv/routesrv/internal/durable"
	"github.com/routesrv/routesrv/table"
)

// The files, as label values.
const (
	lkgFile    = "lkg"
	routesFile = "routes"
)

const (
	// fileWait is how long a commit waits for the disk. Longer would delay the next table for one that hangs.
	fileWait = 5 * time.Second
	// fileRetry is how long after a failed write the next is tried, if no new table comes before.
	fileRetry = 30 * time.Second
)

// file keeps a file up to date with the applied table. Writes are made one after the other, in a goroutine that lives as
// long as there is something to write; of tables that come faster than the disk the last is written. All methods do
// nothing if there is no path.
type file struct {
	// set before use, read only
	name, path string
	store      *durable.Store
	encode     func(io.Writer, *applied) error
	write      func(path string, write func(io.Writer) error) error
	claim      func() // before the first write; nil if whatever is there may be replaced
	log        *slog.Logger
	metrics    *Metrics

	mu      sync.Mutex // guards what follows
	claimed bool
	found   *durable.Trouble // what could not be used; nil if nothing was
	next    *write           // the one that comes after the one in progress; nil if none does
	busy    bool             // a write is in progress
	retryAt time.Time
	lastErr error
	written time.Time
	onDisk  version
}

// write is a table to be written.
type write struct {
	applied *applied
	done    chan struct{} // closed when it, or a later one instead, was tried
}

// version tells what a file says.
type version struct {
	digest   table.Digest
	revision uint64
	saved    time.Time
}

func versionOf(a *applied) version {
	return version{a.table.Digest(), a.table.Revision(), a.info.SourceRead}
}

func newFile(name, path string, encode func(io.Writer, *applied) error, log *slog.Logger, m *Metrics) *file {
	return &file{name: name, path: path, store: durable.NewStore(path), encode: encode, write: durable.WriteFile, log: log, metrics: m}
}

// loaded says that the file was read and is of the table.
func (f *file) loaded(a *applied) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.claimed = true
	if f.store.Loaded() {
		f.onDisk = versionOf(a)
	}
}

// claimedWith says that what was at the path was looked at, with what could not be used.
func (f *file) claimedWith(troubles []durable.Trouble) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.claimed = true
	if len(troubles) > 0 {
		f.found = &troubles[0]
	}
}

// save asks for the table to be written. The channel is closed when that was tried.
func (f *file) save(a *applied) <-chan struct{} {
	if f.path == "" {
		done := make(chan struct{})
		close(done)
		return done
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next == nil {
		f.next = &write{done: make(chan struct{})}
	}
	f.next.applied = a
	if !f.busy {
		f.busy = true
		go f.drain()
	}
	return f.next.done
}

// drain writes until there is nothing to write.
func (f *file) drain() {
	for {
		f.mu.Lock()
		job := f.next
		f.next = nil
		if job == nil {
			f.busy = false
			f.mu.Unlock()
			return
		}
		f.mu.Unlock()
		f.finish(job, f.try(job.applied))
		close(job.done)
	}
}

func (f *file) try(a *applied) error {
	if !f.isClaimed() {
		if f.claim != nil {
			f.claim()
		} else {
			durable.Tidy(f.path)
			f.claimedWith(nil)
		}
	}
	return f.write(f.store.Path(), func(w io.Writer) error { return f.encode(w, a) })
}

func (f *file) isClaimed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.claimed
}

// finish notes how a write went. It says so once per change.
func (f *file) finish(job *write, err error) {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.lastErr
	f.lastErr = err
	if err != nil {
		f.retryAt = now.Add(fileRetry)
		f.metrics.writes.WithLabelValues(f.name, "error").Inc()
		if was == nil {
			f.log.Error(LogFileFailed, "file", f.name, "path", f.path, "error", err)
		}
		return
	}
	f.written, f.onDisk = now, versionOf(job.applied)
	f.metrics.writes.WithLabelValues(f.name, "ok").Inc()
	if was != nil {
		f.log.Info(LogFileRecovered, "file", f.name, "path", f.path)
	}
}

// due reports whether a write that failed is to be tried again.
func (f *file) due(now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.path != "" && f.lastErr != nil && !f.busy && !now.Before(f.retryAt)
}

// says reports whether the file, or what is being written to it, tells all of a.
func (f *file) says(a *applied) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.path == "" || f.lastErr == nil && !f.busy && f.onDisk == versionOf(a)
}

func (f *file) status() *FileStatus {
	if f.path == "" {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &FileStatus{Path: f.store.Path(), Written: f.written}
	if f.found != nil {
		s.Unusable, s.KeptAs = f.found.Err.Error(), f.found.KeptAs
	}
	if f.lastErr != nil {
		s.Error = f.lastErr.Error()
	}
	return s
}

// saveFiles writes the table to all files, and waits for them, but not for ever.
func (c *Client) saveFiles(a *applied) {
	c.waitFor(c.lkg.save(a), c.routes.save(a))
}

// waitFor waits for writes, but not for ever.
func (c *Client) waitFor(writes ...<-chan struct{}) {
	timer := time.NewTimer(fileWait)
	defer timer.Stop()
	for _, done := range writes {
		select {
		case <-done:
		case <-timer.C:
			c.log.Warn(LogFileSlow, "after", fileWait)
			return
		}
	}
}

// retryFiles tries again what could not be written.
func (c *Client) retryFiles(now time.Time) {
	c.committing.Lock() // or the write could come after that of a newer table
	defer c.committing.Unlock()
	a := c.cur.Load()
	if a == nil {
		return
	}
	for _, f := range []*file{c.lkg, c.routes} {
		if f.due(now) {
			f.save(a)
		}
	}
}

// flush makes the LKG file tell when its table was last known to be current, and waits for writes that are in progress.
func (c *Client) flush() {
	c.committing.Lock() // Accept may be on its way
	defer c.committing.Unlock()
	a := c.cur.Load()
	if a == nil {
		return
	}
	var writes []<-chan struct{}
	if !c.lkg.says(a) {
		writes = append(writes, c.lkg.save(a))
	}
	c.waitFor(writes...)
}
