package gate

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/routesrv/routesrv/internal/durable"
	"github.com/routesrv/routesrv/internal/proxysafe"
	"github.com/routesrv/routesrv/table"
)

// Messages of the log about files. The attribute "file" has the name of the file.
const (
	LogFileMissing   = "no last-good file yet"
	LogFileLoaded    = "last-good file loaded, its table is stale until a read or a route server shows it"
	LogFileSetAside  = "last-good file is not usable, set aside and not loaded"
	LogFileFailed    = "file cannot be written, the table is served from memory"
	LogFileSlow      = "file takes long to be written, not waiting for it"
	LogFileRecovered = "file written again"
)

const (
	// fileWait is how long a publication waits for the disk. Longer would delay the next table for one that hangs.
	fileWait = 5 * time.Second
	// fileRetry is how long after a failed write the next is tried, if no new table comes before.
	fileRetry = 30 * time.Second
	// maxHeader is room for the metadata of a last-good file.
	maxHeader = 64 << 10
)

// FileConfig is a file that a Gate keeps up to date with the table that it serves.
type FileConfig struct {
	// Name is what logs and metrics call the file.
	Name string
	// Path is where the file is; empty means that there is none. The mode of the file is 0600.
	Path string
	// Plain leaves the metadata out: the file has the routes only, for a proxy that reads it. A plain file is never loaded.
	Plain bool
	// Background says that a publication does not wait for the disk.
	Background bool
	// MakeFolder makes the folder of the file, with mode 0700, if it does not exist.
	MakeFolder bool
	// Pack packs the table that is loaded ([table.List.Packed]).
	Pack bool
}

// FileStatus is what is known of a file.
type FileStatus struct {
	Path    string    `json:"path"`
	Written time.Time `json:"written,omitzero"` // by this process
	Error   string    `json:"error,omitempty"`  // of the last attempt; empty if it went well
	// Unusable says why what was found at the path could not be used; empty if nothing was wrong. KeptAs is the name that it
	// has now; empty if it could not be moved, and then Path is another name than the one that was asked for.
	Unusable string `json:"unusable,omitempty"`
	KeptAs   string `json:"kept_as,omitempty"`
}

// file keeps a file up to date. Writes are made one after the other, in a goroutine that lives as long as there is something
// to write; of tables that come faster than the disk the last is written. All methods do nothing if there is no path.
type file struct {
	// set before use, read only
	cfg     FileConfig
	store   *durable.Store
	log     *slog.Logger
	metrics *Metrics
	put     func(path string, write func(io.Writer) error) error // durable.WriteFile, but in tests

	mu      sync.Mutex // guards what follows
	claimed bool       // what was at the path before is ours, or was set aside
	found   *durable.Trouble
	next    *write        // the one that comes after the one in progress; nil if none does
	busy    bool          // a write is in progress
	idle    chan struct{} // closed when the goroutine that is busy has ended
	retryAt time.Time
	lastErr error
	savedAt time.Time
	onDisk  version
}

// write is a table to be written.
type write struct {
	served *Served
	done   chan struct{} // closed when it, or a later one instead, was tried
}

// version tells what a file says.
type version struct {
	digest   table.Digest
	revision uint64
	saved    int64 // unix nanoseconds
}

func versionOf(s *Served) version {
	return version{s.Table.Digest(), s.Table.Revision(), s.Read.At.UnixNano()}
}

func newFile(cfg FileConfig, log *slog.Logger, m *Metrics) *file {
	return &file{cfg: cfg, store: durable.NewStore(cfg.Path), put: durable.WriteFile, log: log, metrics: m}
}

// save asks for the table to be written. The channel is closed when that was tried.
func (f *file) save(s *Served) <-chan struct{} {
	if f.cfg.Path == "" {
		return idleNow()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next == nil {
		f.next = &write{done: make(chan struct{})}
	}
	f.next.served = s
	if !f.busy {
		f.busy, f.idle = true, make(chan struct{})
		go f.drain()
	}
	return f.next.done
}

// drain writes until there is nothing to write. Whoever waits for the last write hears of it when the file is idle again, and not
// before: a look at the file would find a write under way.
func (f *file) drain() {
	for ended := false; !ended; {
		f.mu.Lock()
		job := f.next
		f.next = nil
		f.mu.Unlock()
		f.finish(job, f.try(job.served))
		f.mu.Lock()
		if ended = f.next == nil; ended {
			f.busy = false
			close(f.idle)
		}
		f.mu.Unlock()
		close(job.done)
	}
}

// idleNow returns a closed channel: there is nothing to wait for.
func idleNow() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

// written returns a channel that is closed when no write is under way.
func (f *file) written() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.busy {
		return idleNow()
	}
	return f.idle
}

func (f *file) try(s *Served) error {
	if err := f.makeFolder(); err != nil {
		return err
	}
	f.claim()
	return f.put(f.store.Path(), func(w io.Writer) error {
		if f.cfg.Plain {
			if _, err := s.Table.WriteTo(w); err != nil {
				return err
			}
			_, err := io.WriteString(w, "\n")
			return err
		}
		return s.Table.WriteFile(w, table.FileMeta{Saved: s.Read.At, Origin: s.Origin})
	})
}

func (f *file) makeFolder() error {
	if !f.cfg.MakeFolder {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(f.cfg.Path), 0o700); err != nil {
		return fmt.Errorf("folder of the last-good file: %w", err)
	}
	return nil
}

// claim sees to it, once, that a write replaces a file of ours or nothing: what else is there is not ours to delete.
func (f *file) claim() {
	f.mu.Lock()
	claimed := f.claimed
	f.claimed = true
	f.mu.Unlock()
	switch {
	case claimed:
	case f.cfg.Plain:
		durable.Tidy(f.cfg.Path)
	default:
		f.load(1 << 62)
	}
}

// finish notes how a write went. It says so once per change.
func (f *file) finish(job *write, err error) {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.failed(err, now)
		return
	}
	was := f.lastErr
	f.lastErr, f.savedAt, f.onDisk = nil, now, versionOf(job.served)
	f.metrics.write(f.cfg.Name, "ok")
	if was != nil {
		f.log.Info(LogFileRecovered, "file", f.cfg.Name, "path", f.cfg.Path)
	}
}

// failed notes that the file or its folder could not be used. The caller holds mu.
func (f *file) failed(err error, now time.Time) {
	was := f.lastErr
	f.lastErr, f.retryAt = err, now.Add(fileRetry)
	f.metrics.write(f.cfg.Name, "error")
	if was == nil {
		f.log.Error(LogFileFailed, "file", f.cfg.Name, "path", f.cfg.Path, "error", err)
	}
}

// due reports whether a write that failed is to be tried again.
func (f *file) due(now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cfg.Path != "" && f.lastErr != nil && !f.busy && !now.Before(f.retryAt)
}

// says reports whether the file, or what is being written to it, tells all of s.
func (f *file) says(s *Served) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cfg.Path == "" || f.lastErr == nil && !f.busy && f.onDisk == versionOf(s)
}

func (f *file) status() *FileStatus {
	if f.cfg.Path == "" {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &FileStatus{Path: f.store.Path(), Written: f.savedAt}
	if f.found != nil {
		s.Unusable, s.KeptAs = f.found.Err.Error(), f.found.KeptAs
	}
	if f.lastErr != nil {
		s.Error = f.lastErr.Error()
	}
	return s
}

// load gives the table of a last-good file of at most limit bytes, nil if there is none. Whatever is in its place, or in that
// of its folder, is no reason not to start: what cannot be trusted is set aside, or another name is used.
func (f *file) load(limit int64) (t *table.Table, meta table.FileMeta) {
	found, troubles := f.store.Load(limit, func(r io.Reader, size int64) (err error) {
		t, meta, err = parse(r, size, f.cfg.Pack)
		return err
	})
	for _, trouble := range troubles {
		attrs := []any{"file", f.cfg.Name, "path", trouble.Path, "error", trouble.Err}
		if trouble.KeptAs != "" {
			attrs = append(attrs, "kept_as", trouble.KeptAs)
		} else {
			attrs = append(attrs, "set_aside_error", trouble.MoveErr, "used_instead", trouble.Instead)
		}
		f.log.Error(LogFileSetAside, attrs...)
	}
	f.mu.Lock()
	f.claimed = true
	if len(troubles) > 0 {
		f.found = &troubles[0]
	}
	f.mu.Unlock()
	if found {
		return t, meta
	}
	if len(troubles) == 0 {
		f.log.Info(LogFileMissing, "file", f.cfg.Name, "path", f.cfg.Path)
	}
	return nil, table.FileMeta{}
}

// parse reads and verifies a last-good file. A table whose digest is not that of the file was not written by this package.
func parse(r io.Reader, size int64, pack bool) (t *table.Table, meta table.FileMeta, err error) {
	defer func() {
		if v := recover(); v != nil {
			t, err = nil, fmt.Errorf("read last-good file: panic: %v", v)
		}
	}()
	d := table.NewDecoder(nil, math.MaxInt64)
	if pack {
		d.Pack()
	}
	if t, meta, err = d.ReadFile(r, size); err != nil {
		return nil, table.FileMeta{}, err
	}
	var hashed sync.WaitGroup
	hashed.Go(func() { t.Digest() }) // beside the check: a start waits for both
	err = proxysafe.CheckTable(nil, t)
	if hashed.Wait(); t.Digest() != meta.Digest {
		return nil, table.FileMeta{}, errors.New("text is not in canonical form")
	}
	if err != nil { // written by a version that did not check
		return nil, table.FileMeta{}, err
	}
	return t, meta, nil
}
