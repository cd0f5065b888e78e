// Package tables reads routing tables for comparison.
//
// [Reader.Load] reads the whole table of a place or fails. The name decides the kind of place; for a URL, the answer does:
//
//   - routes on the standard input, which can be read once
//     http://…, https://…        a route server, or a Skipper if the answer has X-Timestamp
//     a folder, *.yaml, *.yml, *.json
//     manifests, which Config.Compile compiles into routes
//     any other file             routes; a copy of a table, as last-known-good files are, has its digest checked
//
// A table is complete except for parts that are not routes, which it lists. For a route server, Load checks the number of routes
// against X-Count, and the text against the digest in the ETag. All pages of a Skipper come from one version of its table.
//
// Other modules should not import it: it may change with every release.
package tables

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/table"
)

// Defaults of [Config].
const (
	DefaultTimeout  = 30 * time.Second
	DefaultMaxBytes = 512 << 20
	DefaultPageSize = 4096
)

// Table is a loaded table.
type Table struct {
	// Name is the place as given, without a password.
	Name   string
	Routes []*eskip.Route
	// Revision is the revision of the read that produced the table; 0 if the place reports none.
	Revision uint64
	// LeftOut are the first parts of the text that are not routes, of Unread in all.
	LeftOut []table.LeftOut
	Unread  int
}

// CompileFunc compiles the manifests at a path, which is a file or a folder. Its error names the file.
type CompileFunc func(ctx context.Context, path string) (table.List, error)

// Config configures a [Reader].
type Config struct {
	// Compile compiles manifests; if it is nil, manifests are an error.
	Compile CompileFunc
	// Stdin is the input that "-" reads; if it is nil, "-" is an error.
	Stdin io.Reader
	// Timeout is the limit of a Load from a URL, with all pages, default DefaultTimeout. Redirects are not followed.
	Timeout time.Duration
	// MaxBytes limits the size of a table in bytes after decompression; default DefaultMaxBytes.
	MaxBytes int64
	// PageSize is the number of routes to request from a Skipper at once, default DefaultPageSize.
	PageSize int
	// Transport makes the requests; nil means a copy of http.DefaultTransport.
	Transport http.RoundTripper
}

// Reader reads tables. It is safe for concurrent use.
type Reader struct {
	cfg    Config
	client *http.Client

	stdinTaken atomic.Bool
}

// New returns a reader with the defaults filled in. It reads nothing.
func New(cfg Config) *Reader {
	cfg.Timeout = cmp.Or(cfg.Timeout, DefaultTimeout)
	cfg.MaxBytes = cmp.Or(cfg.MaxBytes, DefaultMaxBytes)
	cfg.PageSize = cmp.Or(cfg.PageSize, DefaultPageSize)
	if cfg.Transport == nil {
		cfg.Transport = http.DefaultTransport.(*http.Transport).Clone()
	}
	return &Reader{cfg: cfg, client: &http.Client{
		Transport: cfg.Transport, Timeout: cfg.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close closes idle connections.
func (r *Reader) Close() { r.client.CloseIdleConnections() }

// Load reads the table of a place.
func (r *Reader) Load(ctx context.Context, place string) (*Table, error) {
	t, err := r.load(ctx, place)
	if err == nil && t.Name == "" {
		t.Name = place
	}
	return t, err
}

func (r *Reader) load(ctx context.Context, place string) (*Table, error) {
	switch {
	case place == "":
		return nil, errors.New("the name of a table is empty: must be a file, a folder of manifests, a URL or -")
	case place == "-" && r.cfg.Stdin == nil:
		return nil, errors.New("-: no standard input")
	case place == "-" && r.stdinTaken.Swap(true):
		return nil, errors.New("-: the standard input can be only one of the tables")
	case place == "-":
		return readRoutes("standard input", r.cfg.Stdin, r.cfg.MaxBytes)
	case strings.HasPrefix(place, "http://"), strings.HasPrefix(place, "https://"):
		return r.loadURL(ctx, place)
	case strings.Contains(place, "://"):
		return nil, fmt.Errorf("%s: must be an http or https URL", place)
	}
	info, err := os.Stat(place)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", place, cause(err))
	case !info.IsDir() && !slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(place))):
		return r.loadFile(ctx, place)
	case r.cfg.Compile == nil:
		return nil, fmt.Errorf("%s: manifests cannot be compiled here", place)
	}
	return r.loadManifests(ctx, place)
}

func (r *Reader) loadFile(ctx context.Context, path string) (*Table, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	in, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, cause(err))
	}
	defer func() { _ = in.Close() }() // only read
	return readRoutes(path, in, r.cfg.MaxBytes)
}

func (r *Reader) loadManifests(ctx context.Context, path string) (*Table, error) {
	compiled, err := r.cfg.Compile(ctx, path)
	if err != nil {
		return nil, err
	}
	// Compare the text, because that is what data planes receive.
	var text strings.Builder
	for r := range compiled.All() {
		text.WriteString(r.Text)
		text.WriteByte('\n')
	}
	routes, err := parse(path+", compiled", text.String())
	if err != nil {
		return nil, err
	}
	return &Table{Routes: routes}, nil
}

// readRoutes reads routes in text form, which may be a saved copy of a table.
func readRoutes(name string, in io.Reader, limit int64) (*Table, error) {
	text, err := readAll(in, limit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	t := &Table{}
	switch copied, _, err := table.ReadFile(bytes.NewReader(text)); {
	case err == nil:
		t.Revision = copied.Revision()
	case errors.Is(err, table.ErrDamaged): // a copy that must not be compared
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := t.parse(name, string(text)); err != nil {
		return nil, err
	}
	return t, nil
}

// parse parses the routes of a table, and leaves out parts that are not routes, unless those are most of the text.
func (t *Table) parse(name, text string) (err error) {
	if t.Routes, err = parse(name, text); err == nil {
		return nil
	}
	d := table.NewDecoder(nil, math.MaxInt64)
	d.LeaveOut()
	_, _ = d.Write([]byte(text)) // Table reports its error
	rest, wrong := d.Table(0, time.Time{})
	if t.Unread, t.LeftOut = d.LeftOut(); wrong != nil || t.Unread == 0 || rest.Len() <= t.Unread {
		return err
	}
	for r := range rest.Routes().All() {
		route, err := r.Parse()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		t.Routes = append(t.Routes, route)
	}
	return nil
}

// readAll reads to the end and fails if the input exceeds the limit.
func readAll(in io.Reader, limit int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(in, limit+1))
	switch {
	case err != nil:
		return nil, cause(err)
	case int64(len(text)) > limit:
		return nil, fmt.Errorf("larger than %d bytes", limit)
	}
	return text, nil
}

// cause strips the path from an error, because the caller already names the place.
func cause(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// offset matches the byte offset in the parser's messages.
var offset = regexp.MustCompile(`, position ([0-9]+): [a-z ]+$`)

// parse parses routes. Its error names the line and column of the mistake.
func parse(name, text string) ([]*eskip.Route, error) {
	routes, err := eskip.Parse(text)
	if err == nil {
		return routes, nil
	}
	if m := offset.FindStringSubmatch(err.Error()); m != nil {
		if at, convErr := strconv.Atoi(m[1]); convErr == nil && at <= len(text) {
			before := text[:at]
			line := 1 + strings.Count(before, "\n")
			column := 1 + len(before) - (strings.LastIndexByte(before, '\n') + 1)
			return nil, fmt.Errorf("%s:%d:%d: %w", name, line, column, err)
		}
	}
	return nil, fmt.Errorf("%s: %w", name, err)
}
