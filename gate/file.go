package gate

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/internal/durable"
	"github.com/routesrv/routesrv/table"
)

// Log messages about files. The attribute "file" has the name of the file.
const (
	LogFileMissing   = "no last-known-good file yet"
	LogFileLoaded    = "last-known-good file loaded, its table is stale until a read or a route server shows it"
	LogFileSetAside  = "last-known-good file is not usable, set aside and not loaded"
	LogFileFailed    = "file cannot be written, the table is served from memory"
	LogFileSlow      = "writing the file takes long, not waiting for it"
	LogFileRecovered = "file written again"
)

const (
	// fileWait is how long a publication waits for the disk. A longer wait for a disk that hangs would delay the next table.
	fileWait = 5 * time.Second
	// fileRetry is how long after a failed write to retry, if no new table comes before.
	fileRetry = 30 * time.Second
	// maxHeader is the space for the metadata of a last-known-good file.
	maxHeader = 64 << 10
)

const (
	// LastKnownGoodFile is the name of the last-known-good file in a state folder, on route servers, relays and data planes. It
	// is a valid eskip document.
	LastKnownGoodFile = "table.eskip"
	// LastKnownGoodName is what logs and metrics call it.
	LastKnownGoodName = "last_known_good"
)

// FileConfig describes a file in which a Gate keeps the served table.
type FileConfig struct {
	// Name is what logs and metrics call the file.
	Name string
	// Path is the path of the file; empty means no file. The mode of the file is 0600.
	Path string
	// Plain omits the metadata: the file has only the routes, for a proxy that reads it. A plain file is never loaded.
	Plain bool
	// Background makes publications not wait for the disk.
	Background bool
	// MakeFolder creates the folder of the file, with mode 0700, if it does not exist.
	MakeFolder bool
	// Pack packs the table that is loaded ([table.List.Packed]), and keeps the facts of the table beside the file, so that loading
	// takes a fraction of the time.
	Pack bool
}

// LastKnownGood describes the last-known-good file of a state folder: [LastKnownGoodFile]. An empty folder means no file.
func LastKnownGood(stateDir string) FileConfig {
	if stateDir == "" {
		return FileConfig{Name: LastKnownGoodName}
	}
	return FileConfig{Name: LastKnownGoodName, Path: filepath.Join(stateDir, LastKnownGoodFile), MakeFolder: true}
}

// FileStatus is the state of a file.
type FileStatus struct {
	Path    string    `json:"path"`
	Written time.Time `json:"written,omitzero"` // by this process
	// LastRead is when the table in the file was last known to be current, as far as the disk has it.
	LastRead time.Time `json:"last_read,omitzero"`
	Error    string    `json:"error,omitempty"` // of the last attempt; empty if it succeeded
	// Unusable says why the file found at the path could not be used; empty if it could. KeptAs is its new name; empty if it
	// could not be moved, and then Path differs from the configured path.
	Unusable string `json:"unusable,omitempty"`
	KeptAs   string `json:"kept_as,omitempty"`
}

// file keeps a file up to date. It writes one table at a time, in a goroutine that lives while there is something to write; if
// tables come faster than the disk, only the last one is written. Without a path, all methods do nothing.
type file struct {
	// set before use, read only
	cfg     FileConfig
	store   *durable.Store
	log     *slog.Logger
	metrics *Metrics
	put     func(path string, write func(io.Writer) error) error // durable.WriteFile, except in tests

	mu      sync.Mutex // guards the fields below
	claimed bool       // the previous file at the path is ours or was set aside
	found   *durable.Trouble
	next    *write        // the write after the current one; nil if none
	busy    bool          // a write is in progress
	idle    chan struct{} // closed when the writing goroutine has ended
	retryAt time.Time
	lastErr error
	savedAt time.Time
	readAt  time.Time // when the time of the last read was last written
	onDisk  version

	// The hold that lasts, as text; empty if no table is held: as it should be, as the last request will write it, and as the disk has it.
	hold, holdAsked, holdOnDisk string

	readFailed  bool         // the last attempt to write the time of the last read
	factsOf     table.Digest // whose facts this process has written
	factsFailed bool         // the last attempt to write them
}

// write is a table to be written.
type write struct {
	served *Served
	hold   string
	whole  bool          // else only the time of its last read, and the hold
	done   chan struct{} // closed when this write, or a later one instead, was attempted
}

// version identifies the content of a file.
type version struct {
	digest   table.Digest
	revision uint64
	saved    int64 // in the file itself, unix nanoseconds
	read     int64 // there or beside it
}

func versionOf(s *Served) version {
	at := s.Read.At.UnixNano()
	return version{s.Table.Digest(), s.Table.Revision(), at, at}
}

func newFile(cfg FileConfig, log *slog.Logger, m *Metrics) *file {
	return &file{cfg: cfg, store: durable.NewStore(cfg.Path), put: durable.WriteFile, log: log, metrics: m}
}

// save requests a write of the table. The channel is closed when that was attempted.
func (f *file) save(s *Served) <-chan struct{} { return f.request(s, true) }

// request requests a write of the table, or only of the time of its last read and the hold.
func (f *file) request(s *Served, whole bool) <-chan struct{} {
	if f.cfg.Path == "" {
		return idleNow()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next == nil {
		f.next = &write{done: make(chan struct{})}
	}
	f.next.served, f.next.hold, f.next.whole = s, f.hold, whole || f.next.whole
	f.holdAsked = f.hold
	if !f.busy {
		f.busy, f.idle = true, make(chan struct{})
		go f.drain()
	}
	return f.next.done
}

// drain writes until nothing is left to write. It reports the last write only when the file is idle again: before that, a caller
// would find a write in progress.
func (f *file) drain() {
	for ended := false; !ended; {
		f.mu.Lock()
		job := f.next
		f.next = nil
		f.mu.Unlock()
		err := f.try(job)
		f.finish(job, err)
		if job.whole && err == nil && f.needsHold(job) {
			f.readWritten(job, f.writeRead(job.served, job.hold), time.Now())
		}
		f.mu.Lock()
		if ended = f.next == nil; ended {
			f.busy = false
			close(f.idle)
		}
		f.mu.Unlock()
		close(job.done)
	}
}

// idleNow returns a closed channel.
func idleNow() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

// written returns a channel that is closed when no write is in progress.
func (f *file) written() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.busy {
		return idleNow()
	}
	return f.idle
}

func (f *file) try(job *write) error {
	s := job.served
	if !job.whole {
		return f.writeRead(s, job.hold)
	}
	if err := f.makeFolder(); err != nil {
		return err
	}
	f.claim()
	err := f.put(f.store.Path(), func(w io.Writer) error {
		if f.cfg.Plain {
			if _, err := s.Table.WriteTo(w); err != nil {
				return err
			}
			_, err := io.WriteString(w, "\n")
			return err
		}
		return s.Table.WriteFile(w, table.FileMeta{Saved: s.Read.At, Origin: s.Origin})
	})
	if err == nil {
		f.saveFacts(s.Table)
	}
	return err
}

func (f *file) makeFolder() error {
	if !f.cfg.MakeFolder {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(f.cfg.Path), 0o700); err != nil {
		return fmt.Errorf("folder of the last-known-good file: %w", err)
	}
	return nil
}

// claim ensures, once, that a write replaces only our own file or nothing: any other file is not ours to delete.
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

// finish records the result of a write. It logs only changes between success and failure.
func (f *file) finish(job *write, err error) {
	now := time.Now()
	if !job.whole {
		f.readWritten(job, err, now)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.failed(err, now)
		return
	}
	was := f.lastErr
	f.lastErr, f.readAt, f.savedAt, f.onDisk = nil, now, now, versionOf(job.served)
	f.metrics.write(f.cfg.Name, "ok")
	if was != nil {
		f.log.Info(LogFileRecovered, "file", f.cfg.Name, "path", f.cfg.Path)
	}
}

// failed records that the file or its folder could not be used. The caller holds mu.
func (f *file) failed(err error, now time.Time) {
	was := f.lastErr
	f.lastErr, f.retryAt = err, now.Add(fileRetry)
	f.metrics.write(f.cfg.Name, "error")
	if was == nil {
		f.log.Error(LogFileFailed, "file", f.cfg.Name, "path", f.cfg.Path, "error", err)
	}
}

// due reports whether to retry a failed write.
func (f *file) due(now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cfg.Path != "" && f.lastErr != nil && !f.busy && !now.Before(f.retryAt)
}

// says reports whether the file, or the content being written to it, is up to date with s.
func (f *file) says(s *Served) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cfg.Path == "" || f.lastErr == nil && !f.busy && f.onDisk == versionOf(s) && f.hold == f.holdOnDisk
}

func (f *file) status() *FileStatus {
	if f.cfg.Path == "" {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &FileStatus{Path: f.store.Path(), Written: f.savedAt}
	if f.onDisk.read > 0 {
		s.LastRead = time.Unix(0, f.onDisk.read).UTC()
	}
	if f.found != nil {
		s.Unusable, s.KeptAs = f.found.Err.Error(), f.found.KeptAs
	}
	if f.lastErr != nil {
		s.Error = f.lastErr.Error()
	}
	return s
}

// load returns the table of a last-known-good file of at most limit bytes, or nil. Nothing found at its path or its folder's path
// prevents the start: files that cannot be trusted are set aside, or another name is used.
// hold is the hold that lasted when the table was written; nil if there was none.
func (f *file) load(limit int64) (t *table.Table, meta table.FileMeta, hold *guard.Ongoing) {
	found, troubles := f.store.Load(limit, func(r io.ReadSeeker, size int64) (err error) {
		t, meta, err = f.parse(r, size)
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
		meta.Saved, hold = f.lastRead(meta, time.Now())
		return t, meta, hold
	}
	if len(troubles) == 0 {
		f.log.Info(LogFileMissing, "file", f.cfg.Name, "path", f.cfg.Path)
	}
	return nil, table.FileMeta{}, nil
}
