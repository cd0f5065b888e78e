package publish

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/catalogue"
	"github.com/routesrv/routesrv/internal/durable"
	"github.com/routesrv/routesrv/table"
)

// Log messages about files. The attribute "file" has the name of the file.
const (
	LogFileMissing   = "no last-known-good file yet"
	LogFileLoaded    = "last-known-good file loaded, its table is stale until a read or a route server shows it"
	LogFileSetAside  = "last-known-good file is not usable, set aside and not loaded"
	LogFileFailed    = "file cannot be written, the table is served from memory"
	LogFileRecovered = "file written again"
)

const (
	// fileWait is how long shutdown waits for the disk.
	fileWait = 5 * time.Second
	// fileEvery is the minimum time between writes of the last-known-good table, except for the first one. Plain files are
	// written at once.
	fileEvery = 30 * time.Second
	// fileRetry is how long after a failed write to retry, if no new table comes before.
	fileRetry = 30 * time.Second
	// maxHeader is the space for the metadata of a last-known-good file.
	maxHeader = 64 << 10
)

const (
	// LastKnownGoodFile is the name of the last-known-good file in a state folder. It is a valid eskip document.
	LastKnownGoodFile = "table.eskip"
	// LastKnownGoodName is what logs and metrics call it.
	LastKnownGoodName = "last_known_good"
)

// FileConfig describes a file in which a Publisher keeps the served table.
type FileConfig struct {
	// Name is what logs and metrics call the file.
	Name string
	// Path is the path of the file; empty means no file. Its mode is 0600. A missing folder is created with mode 0700, unless
	// Plain is set.
	Path string
	// Plain omits the metadata: the file has only the routes, for a proxy that reads it. A plain file is never loaded.
	Plain bool
	// Unproven reports whether the file must not have a table until Publisher.Prove. It is called with locks held. nil means
	// that all tables are proven.
	Unproven func(table.Digest) bool
}

// LastKnownGood describes the last-known-good file of a state folder: [LastKnownGoodFile]. An empty folder means no file.
func LastKnownGood(stateDir string) FileConfig {
	if stateDir == "" {
		return FileConfig{Name: LastKnownGoodName}
	}
	return FileConfig{Name: LastKnownGoodName, Path: filepath.Join(stateDir, LastKnownGoodFile)}
}

// content is what a file and the state beside it hold, or should hold.
type content struct {
	table  *table.Table // nil before the first
	origin string
	saved  time.Time // the last read when the table was first served
	read   time.Time // the last read that showed the table
}

// stateDiffers reports whether the disk lacks the time of the last read. The state belongs to the table on the disk.
func (c *content) stateDiffers(disk *content) bool {
	return c.table == disk.table && c.read.After(disk.read)
}

// file keeps a file and the state beside it up to date, a table at most every fileEvery. Without a path, all methods do
// nothing.
type file struct {
	// set before use, read only
	cfg     FileConfig
	writer  *durable.Writer
	log     *slog.Logger
	metrics *Metrics
	put     func(path string, write func(io.Writer) error) error // durable.WriteFile, except in tests

	claimed bool // the previous file at the path is ours or was set aside; owned by Boot, then by the writer

	mu         sync.Mutex // guards the fields below
	found      error      // why the previous file could not be used
	keptAs     string
	want, disk content
	lastErr    error     // of the last attempt to write
	triedAt    time.Time // when that was
	savedAt    time.Time // when the table was last written
	hurry      bool      // write the table now, whenever that was
}

func newFile(cfg FileConfig, log *slog.Logger, m *Metrics) *file {
	f := &file{cfg: cfg, put: durable.WriteFile, log: log, metrics: m}
	f.writer = durable.NewWriter(f.write)
	for _, result := range []string{"ok", "error"} {
		if cfg.Path != "" {
			m.writes.WithLabelValues(cfg.Name, result)
		}
	}
	return f
}

// save makes the file have a table, unless that has to be proven first. It does not wait for the disk.
func (f *file) save(c Candidate) {
	f.update(func(want *content) {
		if f.cfg.Unproven == nil || want.has(c.Table) || !f.cfg.Unproven(c.Table.Digest()) {
			want.set(c)
		}
	})
}

// prove makes the file have a table that is proven.
func (f *file) prove(c Candidate) {
	f.update(func(want *content) {
		if !want.has(c.Table) {
			want.set(c)
		}
	})
}

func (c *content) set(to Candidate) {
	c.table, c.origin, c.saved, c.read = to.Table, to.Origin, to.Read.At, to.Read.At
}

// has reports whether the table is the one with the content of t.
func (c *content) has(t *table.Table) bool { return c.table != nil && c.table.Digest() == t.Digest() }

// flush writes the table if the disk has another one.
func (f *file) flush() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hurry = f.want.table != f.disk.table; f.hurry {
		f.writer.Request()
	}
}

// due reports whether the table must be written. mu is held.
func (f *file) due() bool {
	return f.want.table != f.disk.table && (f.hurry || f.cfg.Plain || time.Since(f.savedAt) >= fileEvery)
}

// wait waits for writes for a limited time.
func (f *file) wait() {
	if !f.writer.Wait(time.After(fileWait)) {
		f.log.Warn("writing the file takes long, not waiting for it", "after", fileWait)
	}
}

// update changes what the file should have, and requests a write if that is due.
func (f *file) update(change func(want *content)) {
	if f.cfg.Path == "" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.want
	if change(&f.want); f.due() || f.want.stateDiffers(&before) {
		f.writer.Request()
	}
}

// write writes what differs from the disk.
func (f *file) write() {
	f.mu.Lock()
	want, table := f.want, f.due()
	state := !f.cfg.Plain && want.stateDiffers(&f.disk)
	f.hurry = false
	f.mu.Unlock()
	err := errors.Join(f.makeFolder(), f.claim())
	if err == nil && table {
		err = f.writeTable(&want)
	} else if err == nil && state {
		err = f.writeState(&want)
	}
	f.mu.Lock()
	if err == nil && table {
		f.savedAt = time.Now()
		f.disk.table, f.disk.read = want.table, want.saved
	} else if err == nil && state {
		f.disk.read = want.read
	}
	f.mu.Unlock()
	f.wrote(err, table)
}

func (f *file) writeTable(c *content) error {
	return f.put(f.cfg.Path, func(w io.Writer) error {
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
	if f.cfg.Plain {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(f.cfg.Path), 0o700); err != nil {
		return fmt.Errorf("folder of the last-known-good file: %w", err)
	}
	return nil
}

// claim ensures, once, that a write replaces only our own file or nothing: any other file is not ours to delete.
func (f *file) claim() error {
	switch {
	case f.claimed:
		return nil
	case f.cfg.Plain:
		durable.Tidy(f.cfg.Path)
		f.claimed = true
		return nil
	}
	_, _, err := f.load(1 << 62)
	if err == nil {
		f.readState() // sets aside what is not ours
	}
	return err
}

// wrote records, counts and, if its result is new, logs an attempt to write.
func (f *file) wrote(err error, table bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.lastErr
	f.lastErr, f.triedAt = err, time.Now()
	switch {
	case err != nil:
		f.metrics.writes.WithLabelValues(f.cfg.Name, "error").Inc()
		if was == nil {
			f.log.Error(LogFileFailed, "file", f.cfg.Name, "path", f.cfg.Path, "error", err)
		}
		return
	case table:
		f.metrics.writes.WithLabelValues(f.cfg.Name, "ok").Inc()
	}
	if was != nil {
		f.log.Info(LogFileRecovered, "file", f.cfg.Name, "path", f.cfg.Path)
	}
}

// shown records a read that showed a table, if it is the one of the content.
func (c *content) shown(t *table.Table, read time.Time) {
	if (c.table == t || c.has(t)) && read.After(c.read) { // the first is cheaper, and the rule where tables need not be proven
		c.read = read
	}
}

// tend retries a failed write, and writes from time to time when the table was last known to be current: t was shown by a read.
func (f *file) tend(t *table.Table, read time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	every := readEvery
	if f.lastErr != nil {
		every = fileRetry
	}
	due := f.due() && f.lastErr == nil
	if f.cfg.Path == "" || f.writer.Writing() || time.Since(f.triedAt) < every && !due {
		return
	}
	f.want.shown(t, read)
	if f.due() || !f.cfg.Plain && f.want.stateDiffers(&f.disk) {
		f.writer.Request()
	}
}

func (f *file) status() *api.File {
	if f.cfg.Path == "" {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &api.File{Path: f.cfg.Path, Written: f.savedAt, LastRead: f.disk.read.UTC(), KeptAs: f.keptAs}
	if f.found != nil {
		s.Unusable = f.found.Error()
	}
	if f.lastErr != nil {
		s.Error = f.lastErr.Error()
	}
	return s
}

// load returns the table of a last-known-good file of at most limit bytes, or nil: a file that cannot be trusted is set
// aside. It returns an error if there is no room for a table either.
func (f *file) load(limit int64) (t *table.Table, meta table.FileMeta, err error) {
	if err := f.makeFolder(); err != nil {
		return nil, table.FileMeta{}, err
	}
	keptAs, err := durable.Load(f.cfg.Path, limit, func(r io.Reader) (err error) {
		t, meta, err = f.parse(r)
		return err
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	missing := errors.Is(err, fs.ErrNotExist)
	f.claimed = err == nil || keptAs != "" || missing
	switch {
	case err == nil:
		return t, meta, nil
	case missing:
		f.log.Info(LogFileMissing, "file", f.cfg.Name, "path", f.cfg.Path)
	default:
		if f.found == nil { // once, and not for each retry
			f.log.Error(LogFileSetAside, "file", f.cfg.Name, "path", f.cfg.Path, "error", err, "kept_as", keptAs)
		}
		f.found, f.keptAs = err, keptAs
	}
	if f.claimed {
		err = nil
	}
	return nil, table.FileMeta{}, err
}

// parse reads and verifies a last-known-good file.
func (f *file) parse(r io.Reader) (t *table.Table, meta table.FileMeta, err error) {
	defer func() {
		if v := recover(); v != nil {
			t, err = nil, fmt.Errorf("read last-known-good file: panic: %v", v)
		}
	}()
	t, meta, err = table.ReadFile(r)
	if err != nil {
		return nil, table.FileMeta{}, err
	}
	safe, killers := catalogue.WithoutKillers(nil, t) // possibly written by a version that did not know them
	for _, k := range killers {
		f.log.Error("route of the last-known-good file left out, no proxy would survive it",
			"file", f.cfg.Name, "path", f.cfg.Path, "route", k.ID, "error", k.Err)
	}
	if safe.Len() == 0 && t.Len() > 0 {
		return nil, table.FileMeta{}, fmt.Errorf("no proxy would survive its only routes: %w", killers[0].Err)
	}
	return safe, meta, nil
}
