package publish

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/routesrv/routesrv/internal/catalogue"
	"github.com/routesrv/routesrv/table"
)

// LogKillerLeftOut says that a last-known-good file had a route that no proxy survives, and that its table is served without it.
const LogKillerLeftOut = "route of the last-known-good file left out, no proxy would survive it"

// parse reads and verifies a last-known-good file. A file whose table does not have the recorded digest was not written by this
// package.
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
	var hashed sync.WaitGroup
	hashed.Go(func() { t.Digest() })                  // in parallel with the check: a start waits for both
	safe, killers := catalogue.WithoutKillers(nil, t) // possibly written by a version that did not know them
	if hashed.Wait(); t.Digest() != meta.Digest {
		return nil, table.FileMeta{}, errors.New("text is not in canonical form")
	}
	for _, k := range killers {
		f.log.Error(LogKillerLeftOut, "file", f.cfg.Name, "path", f.cfg.Path, "route", k.ID, "error", k.Err)
	}
	if safe.Len() == 0 && t.Len() > 0 {
		return nil, table.FileMeta{}, fmt.Errorf("no proxy would survive its only routes: %w", killers[0].Err)
	}
	return safe, meta, nil
}
