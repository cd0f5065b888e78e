// Package tables reads routing tables for comparison, from wherever one may be: a file of routes, manifests that are
// compiled, a route server, the support listener of a Skipper, or the standard input.
//
// A [Source] is one such place, made by [Reader.Open]; its Load reads the whole table or fails. What a place is follows from
// its name, and for a URL from the answer:
//
//   - routes on the standard input, which only one source can have; read once
//     http://…, https://…        a route server, or a Skipper if the answer has X-Timestamp
//     a folder, *.yaml, *.yml, *.json
//     manifests, which Config.Compile makes routes of
//     any other file             routes; a copy of a table, as checkpoints are, has its digest checked
//
// # Guarantees
//
// A table is complete or there is an error. Of a route server the number of routes is checked against X-Count, and the
// text against the digest in the ETag, if there is one. The pages of a Skipper are all from one version of its table: if
// that changes between two pages they are read again, a few times. Nothing is read beyond the limits in size and time.
//
// Loading again asks a route server only whether there is something new. Errors name the file with line and column, or the
// URL without its password.
//
// # Not done here
//
// Routes are not compared, and not judged. Errors are not tried again, except for the pages of a Skipper. A Source is not
// for the data plane: it remembers nothing across restarts and has one address only.
package tables

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/table"
)

// Defaults of [Config].
const (
	DefaultTimeout      = 30 * time.Second
	DefaultMaxBytes     = 512 << 20
	DefaultMaxRedirects = 5
	DefaultPageSize     = 4096
)

// Table is what was loaded. It must not be changed: the next Load may return the same.
type Table struct {
	Routes []*eskip.Route
	// Revision is the one of the read that the table comes from; 0 if the place has none.
	Revision uint64
	// Read is when the source of the table was last read, as far as the place tells; else when it was loaded.
	Read time.Time
}

// CompileFunc makes routes of the manifests at a path, a file or a folder. Its error names the file.
type CompileFunc func(ctx context.Context, path string) (table.List, error)

// Config says how tables are read.
type Config struct {
	// Compile is for manifests; with nil they are an error.
	Compile CompileFunc
	// Stdin is what "-" reads; with nil that is an error.
	Stdin io.Reader
	// Timeout is the limit of one Load from a URL, with all pages and redirects, default DefaultTimeout.
	Timeout time.Duration
	// MaxBytes is the limit of a table in bytes, after decompression, default DefaultMaxBytes.
	MaxBytes int64
	// MaxRedirects is how many redirects are followed, default DefaultMaxRedirects; below zero none is. A redirect from
	// https to http is never followed.
	MaxRedirects int
	// PageSize is the number of routes to ask a Skipper for at once, default DefaultPageSize.
	PageSize int
	// Transport makes the requests; nil means one like http.DefaultTransport, which knows the proxies of the environment.
	Transport http.RoundTripper
}

// Reader opens sources. It is safe for concurrent use.
type Reader struct {
	cfg    Config
	client *http.Client

	mu       sync.Mutex
	stdinFor bool // guarded by mu: a source has the standard input
}

// Source is a place with a table. Load is for one caller at a time.
type Source interface {
	// Name is the place as it was given, without a password.
	Name() string
	// Load reads the table. After an error it may be called again. The table before stays valid.
	Load(ctx context.Context) (*Table, error)
}

// New returns a reader with the defaults filled in. It reads nothing.
func New(cfg Config) *Reader {
	if cfg.Timeout <= 0 {
		cfg.Timeout = DefaultTimeout
	}
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = DefaultMaxBytes
	}
	if cfg.MaxRedirects == 0 {
		cfg.MaxRedirects = DefaultMaxRedirects
	}
	if cfg.PageSize <= 0 {
		cfg.PageSize = DefaultPageSize
	}
	if cfg.Transport == nil {
		cfg.Transport = http.DefaultTransport.(*http.Transport).Clone()
	}
	r := &Reader{cfg: cfg}
	r.client = &http.Client{Transport: cfg.Transport, Timeout: cfg.Timeout, CheckRedirect: r.redirect}
	return r
}

// Close closes idle connections.
func (r *Reader) Close() { r.client.CloseIdleConnections() }

// Open returns the source of a place. Of the place nothing is read but what it is.
func (r *Reader) Open(place string) (Source, error) {
	switch {
	case place == "":
		return nil, errors.New("the name of a table is empty: want a file, a folder of manifests, a URL or -")
	case place == "-":
		return r.openStdin()
	case strings.HasPrefix(place, "http://"), strings.HasPrefix(place, "https://"):
		return r.openURL(place)
	case strings.Contains(place, "://"):
		return nil, fmt.Errorf("%s: want a URL with http or https", place)
	}
	info, err := os.Stat(place)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", place, cause(err))
	}
	if info.IsDir() || slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(place))) {
		if r.cfg.Compile == nil {
			return nil, fmt.Errorf("%s: manifests cannot be compiled here", place)
		}
		return &manifests{path: place, compile: r.cfg.Compile}, nil
	}
	return &file{path: place, max: r.cfg.MaxBytes}, nil
}

func (r *Reader) openStdin() (Source, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.cfg.Stdin == nil:
		return nil, errors.New("-: there is no standard input")
	case r.stdinFor:
		return nil, errors.New("-: the standard input can be only one of the tables")
	}
	r.stdinFor = true
	return &stdin{in: r.cfg.Stdin, max: r.cfg.MaxBytes}, nil
}
