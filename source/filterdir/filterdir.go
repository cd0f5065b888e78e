// Package filterdir adds the default filters of services, read from a folder, to the snapshots of another source.
//
// The folder has one file for each service, named SERVICE.NAMESPACE, with a filter chain. It is read again for every
// snapshot. A folder that cannot be read is no reason to fail a read: the snapshot then says so and has no default
// filters, as the reference has it. Other entries of the folder are passed over: folders, files over 1 MiB, and names
// that do not split at one dot.
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

// Reader reads a source and the folder. It is not safe for concurrent use.
type Reader struct {
	dir    string
	source Source
	log    *slog.Logger
	last   *kube.DefaultFilters
}

// New makes a Reader of the folder on top of a source. It does no I/O. The logger is told at debug level which entries are
// passed over; nil means no log.
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

func equal(a, b *kube.DefaultFilters) bool {
	return maps.Equal(a.Texts, b.Texts) && fmt.Sprint(a.Err) == fmt.Sprint(b.Err)
}

func (r *Reader) readDir() *kube.DefaultFilters {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return &kube.DefaultFilters{Err: err}
	}
	d := &kube.DefaultFilters{Texts: make(map[kube.ServiceKey]string)}
	for _, e := range entries {
		key, ok := serviceOf(e.Name())
		if !ok {
			r.log.Debug("not a default filter file", "file", e.Name())
			continue
		}
		text, err := readFile(filepath.Join(r.dir, e.Name()), e)
		if err != nil {
			r.log.Debug("default filter file not used", "file", e.Name(), "error", err)
			continue
		}
		d.Texts[key] = text
	}
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

var errTooLarge = errors.New("larger than 1 MiB")

func readFile(path string, e fs.DirEntry) (string, error) {
	if t := e.Type(); !t.IsRegular() && t != fs.ModeSymlink {
		return "", fmt.Errorf("neither a file nor a link: %s", t)
	}
	// What a link leads to has to be a file as well: opening a pipe would block.
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("links to what is no file: %s", info.Mode().Type())
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
		return "", errTooLarge
	}
	return string(b), nil
}
