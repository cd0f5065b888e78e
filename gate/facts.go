package gate

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"sync"

	"github.com/routesrv/routesrv/internal/catalogue"
	"github.com/routesrv/routesrv/internal/durable"
	"github.com/routesrv/routesrv/table"
)

// Beside a last-known-good file that is loaded packed lies a file with the facts of its table ([table.Table.WriteFacts]): with
// them a start need not parse the text. It is optional. Facts that are missing, damaged or of another table are not used.

// factsSuffix is appended to the path of a last-known-good file.
const factsSuffix = ".facts"

// factsHeader is the space for the header and the digest of a facts file. The facts are shorter than the text that they are about.
const factsHeader = 1024

// LogFactsFailed says that the facts of a last-known-good file could not be written.
const LogFactsFailed = "facts of the last-known-good file cannot be written, the next start takes longer"

// LogKillerLeftOut says that a last-known-good file had a route that no proxy survives, and that its table is served without it.
const LogKillerLeftOut = "route of the last-known-good file left out, no proxy would survive it"

// saveFacts writes the facts of a table that has just been written. Failing to do so only costs time at the next start.
func (f *file) saveFacts(t *table.Table) {
	if !f.cfg.Pack || f.cfg.Plain {
		return
	}
	f.mu.Lock()
	written := f.factsOf == t.Digest() // only the time of the last read is new
	f.mu.Unlock()
	if written {
		return
	}
	path := f.cfg.Path + factsSuffix
	err := mayReplaceFacts(path)
	if err == nil {
		err = f.put(path, t.WriteFacts)
	}
	f.mu.Lock()
	tell := err != nil && !f.factsFailed
	if f.factsFailed = err != nil; err == nil {
		f.factsOf = t.Digest()
	}
	f.mu.Unlock()
	if tell {
		f.log.Warn(LogFactsFailed, "file", f.cfg.Name, "path", path, "error", err)
	}
}

// mayReplaceFacts returns an error if the file at path is somebody else's.
func mayReplaceFacts(path string) error {
	in, _, err := durable.Open(path, math.MaxInt64)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	head := make([]byte, 64)
	n, _ := io.ReadFull(in, head)
	if err := in.Close(); err != nil {
		return err
	}
	if !table.IsFacts(head[:n]) {
		return fmt.Errorf("%q is a file of another program", path)
	}
	return nil
}

// loadFacts returns the content of the facts file of a last-known-good file of size bytes, or nil.
func (f *file) loadFacts(size int64) []byte {
	if !f.cfg.Pack {
		return nil
	}
	path := f.cfg.Path + factsSuffix
	durable.Tidy(path)
	in, length, err := durable.Open(path, size+factsHeader)
	if err != nil {
		return nil
	}
	facts := make([]byte, length)
	if _, err := io.ReadFull(in, facts); errors.Join(err, in.Close()) != nil {
		return nil
	}
	return facts
}

// parse reads and verifies a last-known-good file, with its facts or without. A file whose table does not have the recorded
// digest was not written by this package.
func (f *file) parse(r io.ReadSeeker, size int64) (t *table.Table, meta table.FileMeta, err error) {
	defer func() {
		if v := recover(); v != nil {
			t, err = nil, fmt.Errorf("read last-known-good file: panic: %v", v)
		}
	}()
	err = table.ErrFacts
	if facts := f.loadFacts(size); facts != nil {
		t, meta, err = table.ReadFileWithFacts(r, size, facts)
	}
	if errors.Is(err, table.ErrFacts) {
		if _, err := r.Seek(0, io.SeekStart); err != nil {
			return nil, table.FileMeta{}, err
		}
		d := table.NewDecoder(nil, math.MaxInt64)
		if f.cfg.Pack {
			d.Pack()
		}
		t, meta, err = d.ReadFile(r, size)
	}
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
