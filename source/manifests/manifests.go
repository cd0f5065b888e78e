// Package manifests reads a cluster from files: YAML or JSON, with any number of documents per file, in folders or from
// standard input: Ingress, RouteGroup, Service, Endpoints, EndpointSlice, and lists of them. It ignores other kinds. Objects
// get the defaults of an API server for the fields that are read, and nothing is validated.
//
// A read fails as a whole, and names file, document and line, if a file cannot be read, if a document is not YAML, or if files
// keep changing while they are read. An object that cannot be decoded, the second of two with one name, and one with a
// duplicate key affect only themselves: they are in the snapshot's Bad.
//
// Every read reads every file again, because an unchanged size and time prove nothing, but parses only those whose SHA-256
// changed. Unchanged objects keep their pointers.
//
// In a folder, the files *.yaml, *.yml and *.json are read, sorted by name, with those in subfolders, but not hidden and
// kustomization files. Each file is read only once, however many links lead to it. Standard input and anything else that is not
// a regular file is read once and remembered.
//
// Other modules should not import it: it may change with every release.
package manifests

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"github.com/routesrv/routesrv/kube"
)

// DefaultMaxFileBytes is the default of Config.MaxFileBytes.
const DefaultMaxFileBytes = 256 << 20

// maxFiles stops a read of a folder given by mistake, such as /.
const maxFiles = 10_000

// Config configures a Source.
type Config struct {
	// Paths are files and folders, in order; "-" means Stdin.
	Paths []string

	// Stdin is the input for the path "-". The first Read reads it to its end.
	Stdin io.Reader

	// Selection selects the objects to read.
	kube.Selection

	// Namespaces also reads namespaces. Many files may contain the same one.
	Namespaces bool

	// Filters adds default filters to each snapshot: see [FilterFolder.Add]. It may be nil.
	Filters func(*kube.Snapshot) *kube.Snapshot

	// MaxFileBytes limits the size of one file in bytes; default DefaultMaxFileBytes.
	MaxFileBytes int64

	// Logger logs events for operators; nil discards them.
	Logger *slog.Logger
}

// Source reads files. It is safe for concurrent use; reads run one after the other.
type Source struct {
	cfg Config // set by New, read only

	busy sync.Mutex // of the fields below

	once   map[string]content       // content that can be read only once, by path
	byName map[string]*parsed       // the files of the last complete read
	byRef  map[kube.Ref]kube.Object // objects of the last complete read
	last   *kube.Snapshot
}

// New checks the configuration. It reads nothing.
func New(cfg Config) (*Source, error) {
	switch {
	case len(cfg.Paths) == 0:
		return nil, errors.New("no path of manifests")
	case cfg.MaxFileBytes < 0:
		return nil, fmt.Errorf("limit of %d bytes must not be negative", cfg.MaxFileBytes)
	}
	for _, p := range cfg.Paths {
		switch {
		case p == "":
			return nil, errors.New("path of manifests is empty")
		case p == stdin && cfg.Stdin == nil:
			return nil, errors.New(`path "-" without standard input`)
		}
	}
	cfg.MaxFileBytes = cmp.Or(cfg.MaxFileBytes, DefaultMaxFileBytes)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)).With("component", "source.manifests")
	return &Source{cfg: cfg, once: make(map[string]content)}, nil
}

// Read reads all files. The error is a *[kube.ReadError] that names the file, or the context's error. If nothing changed, Read
// returns the same snapshot again. The options have no effect.
func (s *Source) Read(ctx context.Context, _ kube.ReadOptions) (*kube.Snapshot, error) {
	s.busy.Lock()
	defer s.busy.Unlock()
	contents, err := s.readFiles(ctx)
	if err != nil {
		return nil, err
	}
	same := len(contents) == len(s.byName)
	files := make([]*parsed, len(contents))
	for i := range contents {
		c := &contents[i]
		if files[i] = s.byName[c.name]; files[i] != nil && files[i].sum == c.sum {
			continue
		}
		same = false
		if files[i], err = s.parse(c); err != nil {
			return nil, readError(c.name, err)
		}
	}
	if !same || s.last == nil {
		s.commit(files)
	}
	if s.cfg.Filters != nil {
		return s.cfg.Filters(s.last), nil
	}
	return s.last, nil
}

// Objects calls yield with the JSON of each object of all files, of any kind, for callers that need more than Read decodes.
func (s *Source) Objects(ctx context.Context, yield func(kind string, object []byte) error) error {
	s.busy.Lock()
	defer s.busy.Unlock()
	contents, err := s.readFiles(ctx)
	if err != nil {
		return err
	}
	for i := range contents {
		for _, d := range split(&contents[i]) {
			object, err := ToJSON(d)
			if err == nil {
				err = each(object, head{}, 0, func(raw []byte, h *head, _ int) error { return yield(string(h.Kind), raw) })
			}
			if err != nil {
				return fmt.Errorf("%s: line %d: %w", contents[i].name, d.Line, err)
			}
		}
	}
	return nil
}

func (s *Source) commit(files []*parsed) {
	s.byName = make(map[string]*parsed, len(files))
	s.byRef = make(map[kube.Ref]kube.Object)
	s.last = &kube.Snapshot{}
	first := make(map[kube.Ref]string) // where the first object with this name is
	for _, f := range files {
		s.byName[f.name] = f
		for _, e := range f.entries {
			if _, twice := first[e.ref]; e.ref.Kind == kube.KindNamespace && (twice || !s.cfg.Namespaces) {
				continue // many files contain their namespace
			}
			where := fmt.Sprintf("%s: document %d, line %d", f.name, e.document, e.line)
			err := cmp.Or(e.strict, e.err)
			if before, ok := first[e.ref]; ok && e.ref.Name != "" {
				err = fmt.Errorf("duplicate of the object in %s, which takes precedence", before)
			}
			if err != nil {
				s.last.Bad = append(s.last.Bad, kube.BadObject{Ref: e.ref, Err: fmt.Errorf("%s: %w", where, err)})
				continue
			}
			first[e.ref] = where
			s.byRef[e.ref] = e.object
			s.last.Add(e.object)
		}
	}
}
