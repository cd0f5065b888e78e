package tables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/table"
)

// loadFile reads a file of routes.
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

// loadStdin reads standard input, at the first call. Later ones return the same table as current: this side of a comparison never changes.
func (r *Reader) loadStdin() (*Table, error) {
	t, err := r.stdin()
	if err != nil {
		return nil, err
	}
	again := *t
	again.Read = time.Now()
	return &again, nil
}

// loadManifests compiles a file or folder of manifests.
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
	return &Table{Routes: routes, Read: time.Now()}, nil
}

// readRoutes reads routes in text form, which may be a saved copy of a table.
func readRoutes(name string, in io.Reader, limit int64) (*Table, error) {
	text, err := readAll(in, limit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	t := &Table{Read: time.Now()}
	switch copied, _, err := table.ReadFile(bytes.NewReader(text)); {
	case err == nil:
		t.Revision = copied.Revision()
	case errors.Is(err, table.ErrDamaged): // a copy that must not be compared
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if t.Routes, err = parse(name, string(text)); err != nil {
		return nil, err
	}
	return t, nil
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
