package manifests

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/routesrv/routesrv/internal/durable"
	"github.com/routesrv/routesrv/kube"
)

// maxFilterFile is the size in bytes of the largest file that is read, through a link as well.
const maxFilterFile = 1 << 20

// FilterFolder adds default filters of services, read from a folder, to the snapshots of a source. The folder holds one file
// for each service, named SERVICE.NAMESPACE, with a filter chain. If it cannot be read, the snapshot reports the error and has
// no default filters, like in the reference. Other entries are ignored. The first failure of a file is logged as a warning: its
// service loses filters that may protect it.
//
// A FilterFolder is not safe for concurrent use.
type FilterFolder struct {
	dir    string
	log    *slog.Logger
	last   *kube.DefaultFilters
	broken map[string]string // logged errors, by file
}

// Log messages.
const (
	LogPassedOver = "not a default filter file"
	LogUnreadable = "default filter file cannot be read, its service is without default filters"
)

// NewFilterFolder returns a FilterFolder for the folder. A nil logger means no log.
func NewFilterFolder(dir string, logger *slog.Logger) *FilterFolder {
	return &FilterFolder{dir: dir, log: cmp.Or(logger, slog.New(slog.DiscardHandler)).With("component", "default-filters")}
}

// Add reads the folder and returns the snapshot with its default filters, with the same pointer if nothing changed.
func (r *FilterFolder) Add(s *kube.Snapshot) *kube.Snapshot {
	now := r.readDir()
	if last := r.last; last == nil || !maps.Equal(last.Texts, now.Texts) || fmt.Sprint(last.Err) != fmt.Sprint(now.Err) {
		r.last = now
	}
	if s.DefaultFilters == r.last {
		return s
	}
	with := *s
	with.DefaultFilters = r.last
	return &with
}

func (r *FilterFolder) readDir() *kube.DefaultFilters {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return &kube.DefaultFilters{Err: err}
	}
	d := &kube.DefaultFilters{Texts: make(map[kube.ServiceKey]string)}
	broken := make(map[string]string)
	for _, e := range entries {
		name := e.Name()
		service, namespace, ok := strings.Cut(name, ".")
		if !ok || strings.Contains(namespace, ".") {
			r.log.Debug(LogPassedOver, "file", name)
			continue
		}
		text, err := readFilters(filepath.Join(r.dir, name))
		switch {
		case err == nil:
			d.Texts[kube.ServiceKey{Namespace: namespace, Name: service}] = text
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

var errNotMeant = errors.New("ignored")

func readFilters(path string) (string, error) {
	switch info, err := os.Stat(path); { // of the target of a link
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%w: not a regular file: %s", errNotMeant, info.Mode().Type())
	case info.Size() > maxFilterFile:
		return "", fmt.Errorf("%w: larger than 1 MiB", errNotMeant)
	}
	text, err := durable.ReadFile(path, maxFilterFile)
	return string(text), err
}
