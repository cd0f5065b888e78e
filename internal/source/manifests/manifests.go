// Package manifests reads a cluster from files: YAML or JSON, many documents to a file, in folders or from standard
// input. It needs no cluster, and nothing of its objects is ever written.
//
// # Guarantees
//
// A read gives everything or an error: a file that cannot be read, a document that is no YAML, or files that keep
// changing while they are read fail the read as a whole, with file, document and line. An object that cannot be decoded
// is a problem of that object and stands, with its place, in the snapshot's Bad. So does the second of two objects with
// the same kind, namespace and name, and an object with a key that is there twice.
//
// Every read reads every file again, because size and time of a file prove nothing; but only a file whose SHA-256
// changed is parsed, and in it only an object whose JSON changed is decoded. What did not change keeps its pointer.
//
// # What is read
//
// Ingress (networking.k8s.io/v1), RouteGroup (zalando.org/v1), Service, Endpoints and, if asked, Secret (v1),
// EndpointSlice (discovery.k8s.io/v1), and lists of them. An object without apiVersion is taken by its kind. Other kinds
// are ignored. Endpoints and EndpointSlices are both handed out; the compiler takes the one it is told to.
//
// An object without a namespace is given "default", as kubectl does, and unlike objects from the API, which always have
// one. Other defaults of an API server are not applied, and nothing is validated.
//
// In a folder the files *.yaml, *.yml and *.json are read, folders below it too, sorted by name; names that begin with a
// dot and kustomization files are left out. Symbolic links are followed, each file is read once, whatever leads to it.
// Standard input and what else is not a regular file are read once and remembered.
package manifests

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/routesrv/routesrv/kube"
)

// Defaults of [Config].
const (
	DefaultMaxFileBytes = 256 << 20
	DefaultMaxFiles     = 10000
)

// Config says what is read.
type Config struct {
	// Paths are files and folders, in order; "-" is Stdin. At least one.
	Paths []string

	// Stdin is what the path "-" reads. It is read to its end by the first Read.
	Stdin io.Reader

	// Namespace restricts what is read to one namespace; "" reads all.
	Namespace string

	// Selectors are label selectors by kind: equality, or mere presence if the value is empty. All of a kind have to
	// hold.
	Selectors map[kube.Kind]map[string]string

	// Secrets reads Secrets, too.
	Secrets bool

	// MaxFileBytes is the limit of one file, default DefaultMaxFileBytes.
	MaxFileBytes int64

	// MaxFiles is the limit of the number of files, default DefaultMaxFiles: a folder given by mistake, such as /, shall
	// not be read to its end.
	MaxFiles int

	// Logger gets what an operator should see; nil discards.
	Logger *slog.Logger
}

// Source reads files. It is safe for concurrent use; reads run one after the other.
type Source struct {
	cfg Config // set by New, read only

	busy chan struct{} // capacity 1: who has put a value in owns what follows

	once    map[string]content   // what can be read only once, by path
	files   []*parsed            // of the last complete read, in order
	byName  map[string]*parsed   // the same
	objects map[digest]decoded   // of the last complete read
	byRef   map[kube.Ref]decoded // the same
	last    *kube.Snapshot
}

// New checks the configuration. It reads nothing.
func New(cfg Config) (*Source, error) {
	switch {
	case len(cfg.Paths) == 0:
		return nil, errors.New("no path of manifests")
	case cfg.MaxFileBytes < 0:
		return nil, fmt.Errorf("limit of %d bytes: want a positive number", cfg.MaxFileBytes)
	case cfg.MaxFiles < 0:
		return nil, fmt.Errorf("limit of %d files: want a positive number", cfg.MaxFiles)
	}
	for _, p := range cfg.Paths {
		switch {
		case p == "":
			return nil, errors.New("path of manifests is empty")
		case p == stdin && cfg.Stdin == nil:
			return nil, errors.New(`path "-" without standard input`)
		}
	}
	if cfg.MaxFileBytes == 0 {
		cfg.MaxFileBytes = DefaultMaxFileBytes
	}
	if cfg.MaxFiles == 0 {
		cfg.MaxFiles = DefaultMaxFiles
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Logger = cfg.Logger.With("component", "source.manifests")
	return &Source{cfg: cfg, busy: make(chan struct{}, 1), once: make(map[string]content)}, nil
}

// Read reads all files. The error is a *[kube.ReadError] that names the file, or the context's. The snapshot before
// stays valid either way. When nothing changed the same snapshot is returned again. Its revision is 0, and the options
// change nothing.
func (s *Source) Read(ctx context.Context, _ kube.ReadOptions) (*kube.Snapshot, error) {
	select {
	case s.busy <- struct{}{}:
		defer func() { <-s.busy }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	contents, err := s.readFiles(ctx)
	if err != nil {
		return nil, err
	}
	same := len(contents) == len(s.files)
	files := make([]*parsed, len(contents))
	p := parser{source: s, objects: make(map[digest]decoded)}
	for i := range contents {
		c := &contents[i]
		if old := s.byName[c.name]; old != nil && old.sum == c.sum {
			files[i] = old
		} else if files[i], err = p.parse(c); err != nil {
			return nil, &kube.ReadError{Verb: "read", Resource: c.name, Err: err}
		}
		same = same && files[i] == s.files[i]
	}
	if same && s.last != nil {
		return s.last, nil
	}
	s.commit(files)
	return s.last, nil
}

// commit makes the files those of the last complete read, and a snapshot of them.
func (s *Source) commit(files []*parsed) {
	s.files = files
	s.byName = make(map[string]*parsed, len(files))
	s.objects = make(map[digest]decoded)
	s.byRef = make(map[kube.Ref]decoded)
	s.last = &kube.Snapshot{}
	first := make(map[kube.Ref]string) // where the object with this name was met
	for _, f := range files {
		s.byName[f.name] = f
		for _, e := range f.entries {
			where := fmt.Sprintf("%s: document %d, line %d", f.name, e.document, e.line)
			s.objects[e.sum] = e.decoded
			err := cmp.Or(e.strict, e.err)
			if before, ok := first[e.ref]; ok && e.ref.Name != "" {
				err = fmt.Errorf("the same object stands in %s, which is the one that counts", before)
			}
			if err != nil {
				s.last.Bad = append(s.last.Bad, kube.BadObject{Ref: e.ref, Err: fmt.Errorf("%s: %w", where, err)})
				continue
			}
			first[e.ref] = where
			s.byRef[e.ref] = e.decoded
			add(s.last, e.object)
		}
	}
}

func add(s *kube.Snapshot, o kube.Object) {
	switch o := o.(type) {
	case *kube.Ingress:
		s.Ingresses = append(s.Ingresses, o)
	case *kube.RouteGroup:
		s.RouteGroups = append(s.RouteGroups, o)
	case *kube.Service:
		s.Services = append(s.Services, o)
	case *kube.Endpoints:
		s.Endpoints = append(s.Endpoints, o)
	case *kube.EndpointSlice:
		s.EndpointSlices = append(s.EndpointSlices, o)
	case *kube.Secret:
		s.Secrets = append(s.Secrets, o)
	}
}
