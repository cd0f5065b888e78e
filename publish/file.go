package publish

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
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

// FileConfig describes a file in which a Publisher keeps the served table.
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

// content is what a file, and the state beside it, say or should say.
type content struct {
	table  *table.Table // nil before the first
	origin string
	saved  time.Time // the last read when the table was first served
	read   time.Time // the last read that showed the table
	hold   guard.Ongoing
	kept   keptList
}

// file keeps a file and the state beside it up to date. A goroutine lives while there is something to write, and writes whatever differs
// from the disk; if tables come faster than the disk, only the last one is written. Without a path, all methods do nothing.
type file struct {
	// set before use, read only
	cfg     FileConfig
	store   *durable.Store
	log     *slog.Logger
	metrics *Metrics
	put     func(path string, write func(io.Writer) error) error // durable.WriteFile, except in tests

	mu         sync.Mutex // guards the fields below
	claimed    bool       // the previous file at the path is ours or was set aside
	found      *durable.Trouble
	want, disk content
	next       chan struct{} // closed when the content wanted by now was attempted; nil if nobody asked since the last attempt began
	idle       chan struct{} // closed when the goroutine has ended; nil while there is none
	retryAt    time.Time     // after a failure
	stateAt    time.Time     // when the state was last attempted
	stateErr   error         // of the last attempt
	lastErr    error
	savedAt    time.Time
}

func newFile(cfg FileConfig, log *slog.Logger, m *Metrics) *file {
	return &file{cfg: cfg, store: durable.NewStore(cfg.Path), put: durable.WriteFile, log: log, metrics: m}
}

// save requests a write of a table. The channel is closed when that was attempted.
func (f *file) save(c Candidate) <-chan struct{} {
	return f.update(func(want *content) {
		want.table, want.origin, want.saved, want.read = c.Table, c.Origin, c.Read.At, c.Read.At
	})
}

// update changes what the file should say, and requests a write if that is something else. The channel is closed when it was attempted.
func (f *file) update(change func(want *content)) <-chan struct{} {
	if f.cfg.Path == "" {
		return idleNow()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.want
	change(&f.want)
	if !f.want.differs(&before) {
		return idleNow()
	}
	return f.request()
}

// differs reports whether content has to be written where the disk has other content.
func (c *content) differs(disk *content) bool { return c.table != disk.table || c.stateDiffers(disk) }

// stateDiffers does the same for the state beside the table. The state tells of the table on the disk, so it has no newer read of another.
func (c *content) stateDiffers(disk *content) bool {
	return c.hold != disk.hold || !slices.Equal(c.kept, disk.kept) || c.table == disk.table && c.read.After(disk.read)
}

// request makes the goroutine write. The caller holds mu.
func (f *file) request() <-chan struct{} {
	if f.next == nil {
		f.next = make(chan struct{})
	}
	if f.idle == nil {
		f.idle = make(chan struct{})
		go f.drain()
	}
	return f.next
}

// drain writes until nothing is left to write. It reports the last write only when the file is idle again: before that, a caller
// would find a write in progress.
func (f *file) drain() {
	for ended := false; !ended; {
		f.mu.Lock()
		done, want, disk := f.next, f.want, f.disk
		f.next = nil
		f.mu.Unlock()
		// The state comes first, so that the table never has an object of which nobody knows why.
		if !f.cfg.Plain && want.stateDiffers(&disk) {
			f.wroteState(&want, f.writeState(&want, &disk))
		}
		if want.table != disk.table {
			f.wroteTable(&want, f.writeTable(&want))
		}
		f.mu.Lock()
		if ended = f.next == nil; ended {
			close(f.idle)
			f.idle = nil
		}
		f.mu.Unlock()
		close(done)
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
	if f.idle == nil {
		return idleNow()
	}
	return f.idle
}

func (f *file) writeTable(c *content) error {
	if err := f.makeFolder(); err != nil {
		return err
	}
	f.claim()
	return f.put(f.store.Path(), func(w io.Writer) error {
		if f.cfg.Plain {
			if _, err := c.table.WriteTo(w); err != nil {
				return err
			}
			_, err := io.WriteString(w, "\n")
			return err
		}
		return c.table.WriteFile(w, table.FileMeta{Saved: c.saved, Origin: c.origin})
	})
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

// wroteTable records the result of writing a table. It logs only changes between success and failure.
func (f *file) wroteTable(c *content, err error) {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.failed(err, now)
		return
	}
	was := f.lastErr
	f.lastErr, f.savedAt, f.stateAt = nil, now, now
	f.disk.table, f.disk.origin, f.disk.saved, f.disk.read = c.table, c.origin, c.saved, c.saved
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

// tend retries a failed write, and writes from time to time when the table was last known to be current.
func (f *file) tend(read, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cfg.Path == "" || f.idle != nil || now.Before(f.retryAt) {
		return
	}
	every := readEvery
	if len(f.want.kept) > 0 {
		every = keptReadEvery
	}
	if f.stateErr != nil || now.Sub(f.stateAt) >= every {
		f.want.read = latest(f.want.read, read)
	}
	if f.want.table != f.disk.table || !f.cfg.Plain && f.want.stateDiffers(&f.disk) {
		f.request()
	}
}

func (f *file) status() *FileStatus {
	if f.cfg.Path == "" {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &FileStatus{Path: f.store.Path(), Written: f.savedAt, LastRead: f.disk.read.UTC()}
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
func (f *file) load(limit int64) (t *table.Table, meta table.FileMeta) {
	found, troubles := f.store.Load(limit, func(r io.Reader, _ int64) (err error) {
		t, meta, err = f.parse(r)
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
	switch {
	case found:
		return t, meta
	case len(troubles) == 0:
		f.log.Info(LogFileMissing, "file", f.cfg.Name, "path", f.cfg.Path)
	}
	return nil, table.FileMeta{}
}
