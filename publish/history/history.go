// Package history remembers what a server has served: each change of intent, and the versions of the objects in it, for weeks.
//
// A [History] is an append-only list of entries in a few files, its segments. Each segment begins with a copy of all objects, so
// the oldest can be removed when the total size exceeds the limit. Without a folder, the history has one segment in memory, and a
// smaller limit.
//
// The history stores only the parts of an object that the compiler reads: no other annotations, secrets or endpoints.
//
// Damaged files are tolerated: each frame of a file has a checksum, and the rest of a file after a bad frame is ignored.
//
// Other modules should not import it: it may change with every release.
package history

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/publish"
)

const (
	// DefaultLimit is the default of Config.Limit. It is enough for weeks in a cluster with 20,000 objects and one change every ten
	// seconds.
	DefaultLimit = 256 << 20
	// memoryLimit is the limit without a folder.
	memoryLimit = 16 << 20
	// segments is how many files share the limit.
	segments = 4
	// maxEntries is the maximum number of entries, whatever their size.
	maxEntries = 20_000
)

// LogFailed reports that a part of the history could not be read or written. Nothing else depends on it.
const LogFailed = "cannot read or write the history of objects"

// Config configures a History.
type Config struct {
	// Folder has the segments; empty keeps the history in memory.
	Folder string
	// Limit is the maximum size of all segments in bytes. Default DefaultLimit.
	Limit int64
	// Bare returns only the metadata that the compiler reads. nil keeps all metadata.
	Bare func(kube.Meta) kube.Meta
	Log  *slog.Logger // nil means no log
}

// Version is an object at one time.
type Version struct {
	kube.Ref
	kube.Version
	DefaultFilters *kube.DefaultFilters `json:"default_filters,omitempty"`

	id identity // zero if not computed yet, or for no object
}

func (v *Version) exists() bool { return v.Object() != nil || v.DefaultFilters != nil }

// filtersRef names the default filters.
var filtersRef = publish.PinFilters(nil, "").Ref

// identity is a hash of an object, without the time and the author of its last change. Zero means that the object does not exist.
type identity [16]byte

func identityOf(v *Version) (id identity) {
	if !v.exists() || v.id != (identity{}) {
		return v.id
	}
	less := *v
	if o := v.Object(); o != nil {
		meta := *o.Metadata()
		meta.Changed = ""
		less.Version = kube.VersionOf(o.WithMeta(meta))
	}
	text, err := json.Marshal(less)
	if err != nil {
		panic(fmt.Sprintf("%s has no JSON form: %v", v.Ref, err)) // it was decoded from JSON
	}
	sum := sha256.Sum256(text)
	copy(id[:], sum[:])
	return id
}

// place is where a version is stored.
type place struct {
	n       uint64 // of the entry that brought it
	segment *segment
	offset  int64
	id      identity
}

// History records what a server has served. Create it with [Open]. All methods are safe for concurrent use; [History.Record] and
// [History.Close] belong to one goroutine.
type History struct {
	cfg Config
	log *slog.Logger

	encoder  *zstd.Encoder // guarded by mu, as everything below
	mu       sync.Mutex
	last     *kube.Intent // the last recorded one; nil before the first one of this process, and after a failure
	loaded   bool         // from the folder
	memory   bool         // the next segment is in memory, because the last one could not be written
	segments []*segment   // the oldest first
	entries  []api.HistoryEntry
	versions map[kube.Ref][]place // in the order of their entries
	next     uint64               // number of the next entry
}

// Open returns the history in a folder. The first use reads it, because a server has more urgent work when it starts. Open does
// not fail: unreadable files are logged.
func Open(cfg Config) *History {
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	cfg.Limit = cmp.Or(cfg.Limit, DefaultLimit)
	if cfg.Folder == "" {
		cfg.Limit = min(cfg.Limit, memoryLimit)
	}
	if cfg.Bare == nil {
		cfg.Bare = func(m kube.Meta) kube.Meta { return m }
	}
	return &History{cfg: cfg, log: cfg.Log, versions: make(map[kube.Ref][]place), next: 1, encoder: newEncoder()}
}

// lock locks the history, and reads it on the first call. The caller must call the returned function.
func (h *History) lock() (unlock func()) {
	h.mu.Lock()
	if !h.loaded {
		h.loaded = true
		h.load()
	}
	return h.mu.Unlock
}

// load reads the segments. The caller holds mu.
func (h *History) load() {
	for _, s := range openSegments(h.cfg.Folder, h.log) {
		err := s.scan(func(offset int64, f *frame) { h.index(s, offset, f) })
		if err != nil {
			h.log.Error(LogFailed, "path", s.path, "error", err)
			_ = s.close() // later frames go to another segment
		}
		h.segments = append(h.segments, s)
	}
	h.shrink()
}

// index remembers where the versions of a frame are. The caller holds mu.
func (h *History) index(s *segment, offset int64, f *frame) {
	if f.Entry != nil {
		if e := *f.Entry; len(h.entries) == 0 || e.N > h.entries[len(h.entries)-1].N {
			h.entries = append(h.entries, e)
			h.next = e.N + 1
		}
	}
	for i := range f.Objects {
		v := &f.Objects[i]
		at := place{n: f.N, segment: s, offset: offset, id: identityOf(v)}
		known := h.versions[v.Ref]
		if k := len(known); k == 0 || known[k-1].id != at.id {
			h.versions[v.Ref] = append(known, at)
		} else if f.Base { // the same version, in a newer segment
			h.versions[v.Ref] = append(known[:k-1:k-1], place{known[k-1].n, s, offset, at.id})
		}
	}
}

// Record appends an entry about a table that is served now, with the intent that it was compiled from. The caller fills in the
// time, revision, digest, routes, takeovers and decisions of the entry. Record does nothing if the entry has no content. If an
// entry cannot be written, Record logs the failure and adds its objects to the next entry, which is in memory.
func (h *History) Record(e api.HistoryEntry, now *kube.Intent) {
	defer h.lock()()
	first := len(h.entries) == 0 // the history is empty
	e.N = h.next
	b := batch{h: h, frame: frame{N: e.N}}
	h.changes(now, func(v Version) {
		if e.Count++; len(e.Changes) < api.MaxChanges && !first {
			e.Changes = append(e.Changes, h.change(&v))
		}
		b.add(v)
	})
	if e.Count+len(e.Decisions)+len(e.Takeovers) > 0 && b.err == nil {
		slices.SortFunc(e.Changes, func(a, b api.HistoryChange) int { return a.Ref.Compare(b.Ref) })
		b.frame.Entry = &e
		if b.flush(); b.err == nil {
			b.err = b.segment.sync()
		}
	}
	if b.err != nil {
		h.log.Error(LogFailed, "path", b.segment.name(), "error", b.err)
		_ = b.segment.close() // it has failed already
		h.last, h.memory = nil, true
	}
	h.shrink()
}

// batch writes versions in frames of limited size, because there may be many.
type batch struct {
	h       *History
	segment *segment // nil before the first frame of an entry
	frame   frame    // the next one
	err     error    // after which nothing is written
}

func (b *batch) add(v Version) {
	if b.frame.Objects = append(b.frame.Objects, v); len(b.frame.Objects) == objectsPerFrame {
		b.flush()
	}
}

// flush writes the frame. The caller holds the mu of the history.
func (b *batch) flush() {
	if b.segment == nil {
		b.segment, b.err = b.h.segment(b.frame.N)
	}
	if b.err == nil {
		b.err = b.h.append(b.segment, &b.frame)
	}
	b.frame.Objects = b.frame.Objects[:0]
}

// change returns the change that v makes to its object. The caller holds mu.
func (h *History) change(v *Version) api.HistoryChange {
	c := api.HistoryChange{Ref: v.Ref, What: api.ObjectChanged}
	switch {
	case !v.exists():
		c.What = api.ObjectDeleted
	case h.lastOf(v.Ref).id == identity{}:
		c.What = api.ObjectCreated
	}
	if o := v.Object(); o != nil {
		c.By = o.Metadata().Changed
	}
	return c
}

// changes calls add for the versions of an intent that differ from the last recorded ones, and marks them as recorded. The caller
// holds mu.
func (h *History) changes(now *kube.Intent, add func(Version)) {
	record := func(v Version) {
		if v.id = identityOf(&v); v.id != h.lastOf(v.Ref).id {
			add(v)
		}
	}
	was := h.last
	if h.last = now; was == nil { // deleted meanwhile
		exists := make(map[kube.Ref]bool, now.Size())
		h.each(now, func(v Version) {
			exists[v.Ref] = true
			record(v)
		})
		for ref := range h.versions {
			if !exists[ref] && h.lastOf(ref).id != (identity{}) {
				add(Version{Ref: ref})
			}
		}
		return
	}
	gone, fresh := was.Difference(now)
	exists := make(map[kube.Ref]bool)
	for o := range fresh.Objects() {
		exists[o.Ref()] = true
		record(h.versionOf(o))
	}
	if was.DefaultFilters != now.DefaultFilters {
		record(Version{Ref: filtersRef, DefaultFilters: now.DefaultFilters})
	}
	for o := range gone.Objects() {
		if ref := o.Ref(); !exists[ref] && h.lastOf(ref).id != (identity{}) {
			add(Version{Ref: ref})
		}
	}
}

// each calls yield for the stored version of each object of an intent, and of its default filters.
func (h *History) each(i *kube.Intent, yield func(Version)) {
	for o := range i.Objects() {
		yield(h.versionOf(o))
	}
	yield(Version{Ref: filtersRef, DefaultFilters: i.DefaultFilters})
}

// versionOf returns the stored version of an object.
func (h *History) versionOf(o kube.Routed) Version {
	return Version{Ref: o.Ref(), Version: kube.VersionOf(o.WithMeta(h.cfg.Bare(*o.Metadata())))}
}

// lastOf returns the place of the last version of an object; the zero value if none is known. The caller holds mu.
func (h *History) lastOf(ref kube.Ref) place {
	if known := h.versions[ref]; len(known) > 0 {
		return known[len(known)-1]
	}
	return place{}
}

// Entries returns the entries since a time for which wanted returns true, at most n of them, the newest first.
func (h *History) Entries(since time.Time, n int, wanted func(*api.HistoryEntry) bool) []api.HistoryEntry {
	defer h.lock()()
	all := []api.HistoryEntry{}
	for i := len(h.entries) - 1; i >= 0 && len(all) < n; i-- {
		if e := &h.entries[i]; !e.At.Before(since) && wanted(e) {
			all = append(all, *e)
		}
	}
	return all
}

// At returns the entry that was served at a time. ok is false if the history begins later.
func (h *History) At(t time.Time) (e api.HistoryEntry, ok bool) {
	for _, e := range h.Entries(time.Time{}, 1, func(e *api.HistoryEntry) bool { return !e.At.After(t) }) {
		return e, true
	}
	return e, false
}
