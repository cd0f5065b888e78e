// Package filterdir adds the default filters of services, read from a folder, to the snapshots of another source.
//
// The folder has one file for each service, named SERVICE.NAMESPACE, with a filter chain. It is read again for every
// snapshot. A folder that cannot be read is no reason to fail a read: the snapshot then says so and has no default
// filters, as the reference has it. Other entries of the folder are passed over, which is said at debug level: folders,
// files over 1 MiB, and names that do not split at one dot. A file that is meant and cannot be read is passed over as
// well, but that is a warning, when it begins: the service loses filters that may protect it.
package filterdir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/routesrv/routesrv/kube"
)

// maxSize is the size of the largest file that is read, in bytes. For a link it is the size of the link itself that the
// reference looks at; here what is read through it is limited, too.
const maxSize = 1 << 20

// Source is what the default filters are added to.
type Source interface {
	Read(ctx context.Context, o kube.ReadOptions) (*kube.Snapshot, error)
}

// follower is what the source may be besides: one that follows its objects by itself.
type follower interface {
	Run(ctx context.Context) error
	Changed() <-chan struct{}
}

// prober is what the source may be besides: one that can tell at little cost whether a read would fail.
type prober interface {
	Probe(ctx context.Context) error
}

// Reader reads a source and the folder. It is not safe for concurrent use.
type Reader struct {
	dir    string
	source Source
	log    *slog.Logger
	last   *kube.DefaultFilters
	broken map[string]string // what was warned of, by file
}

// Messages.
const (
	LogPassedOver = "not a default filter file"
	LogUnreadable = "default filter file cannot be read, its service is without default filters"
)

// New makes a Reader of the folder on top of a source. It does no I/O. The logger is told which entries are passed over;
// nil means no log.
func New(dir string, source Source, logger *slog.Logger) *Reader {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Reader{dir: dir, source: source, log: logger.With("component", "filterdir")}
}

// Read reads the source and then the folder. The snapshot's DefaultFilters pointer is that of the read before if nothing
// in the folder changed.
func (r *Reader) Read(ctx context.Context, o kube.ReadOptions) (*kube.Snapshot, error) {
	s, err := r.source.Read(ctx, o)
	if err != nil {
		return nil, err
	}
	now := r.readDir()
	if r.last == nil || !equal(r.last, now) {
		r.last = now
	}
	if s.DefaultFilters == r.last {
		return s, nil
	}
	with := *s
	with.DefaultFilters = r.last
	return &with, nil
}

// Run runs the source if that follows its objects, until ctx ends. Otherwise there is nothing to run.
func (r *Reader) Run(ctx context.Context) error {
	if f, ok := r.source.(follower); ok {
		return f.Run(ctx)
	}
	return nil
}

// Changed tells when the source has something new. It is nil if the source does not tell. The folder tells nothing: it is
// read whenever the source is.
func (r *Reader) Changed() <-chan struct{} {
	if f, ok := r.source.(follower); ok {
		return f.Changed()
	}
	return nil
}

// Probe asks the source whether a read would fail. It is nil if the source cannot tell.
func (r *Reader) Probe(ctx context.Context) error {
	if p, ok := r.source.(prober); ok {
		return p.Probe(ctx)
	}
	return nil
}

// Drop lets the source go of its objects, if it can.
func (r *Reader) Drop() {
	if d, ok := r.source.(interface{ Drop() }); ok {
		d.Drop()
	}
}

func equal(a, b *kube.DefaultFilters) bool {
	return maps.Equal(a.Texts, b.Texts) && fmt.Sprint(a.Err) == fmt.Sprint(b.Err)
}

func (r *Reader) readDir() *kube.DefaultFilters {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return &kube.DefaultFilters{Err: err}
	}
	d := &kube.DefaultFilters{Texts: make(map[kube.ServiceKey]string)}
	broken := make(map[string]string)
	for _, e := range entries {
		name := e.Name()
		key, ok := serviceOf(name)
		if !ok {
			r.log.Debug(LogPassedOver, "file", name)
			continue
		}
		text, err := readFile(filepath.Join(r.dir, name), e)
		switch {
		case err == nil:
			d.Texts[key] = text
		case errors.Is(err, errNotMeant):
			r.log.Debug(LogPassedOver, "file", name, "error", err)
		default:
			broken[name] = err.Error()
			if r.broken[name] != broken[name] {
				r.log.Warn(LogUnreadable, "file", name, "error", err)
			}
		}
	}
	r.broken = broken
	return d
}

// serviceOf splits SERVICE.NAMESPACE.
func serviceOf(name string) (kube.ServiceKey, bool) {
	parts := strings.Split(name, ".")
	if len(parts) != 2 {
		return kube.ServiceKey{}, false
	}
	return kube.ServiceKey{Name: parts[0], Namespace: parts[1]}, true
}

// errNotMeant is wrapped by what says that an entry is not one that is read.
var errNotMeant = errors.New("passed over")

func readFile(path string, e fs.DirEntry) (string, error) {
	if t := e.Type(); !t.IsRegular() && t != fs.ModeSymlink {
		return "", fmt.Errorf("%w: neither a file nor a link: %s", errNotMeant, t)
	}
	// What a link leads to has to be a file as well: opening a pipe would block.
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%w: links to what is no file: %s", errNotMeant, info.Mode().Type())
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	switch {
	case err != nil:
		return "", err
	case len(b) > maxSize:
		return "", fmt.Errorf("%w: larger than 1 MiB", errNotMeant)
	}
	return string(b), nil
}
