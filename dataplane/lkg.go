package dataplane

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/routesrv/routesrv/internal/durable"
	"github.com/routesrv/routesrv/table"
)

// maxLKGHeader is room for the metadata of the file.
const maxLKGHeader = 64 << 10

// errNotRegular is of what cannot be read without waiting, or at all.
var errNotRegular = errors.New("not a regular file")

func writeLKG(w io.Writer, a *applied) error {
	return a.table.WriteFile(w, table.FileMeta{Saved: a.info.SourceRead, Origin: a.info.Origin})
}

func writeRoutes(w io.Writer, a *applied) error {
	_, err := a.table.WriteTo(w)
	return err
}

// Boot loads the LKG file and applies its table, which is stale until a server confirms it, and returns it; nil if there
// is no usable file. It is to be called before Run. Publish is not called: whether a stale table is served is the
// caller's decision.
//
// A file that is torn, truncated, foreign, or too large is set aside, which is logged, and is no error: it is neither
// loaded nor deleted. The error is that of a file that cannot be read; such a file is set aside when the first table is
// written.
func (c *Client) Boot() (*table.Table, error) {
	c.committing.Lock()
	defer c.committing.Unlock()
	if a := c.cur.Load(); a != nil || c.cfg.LKGPath == "" {
		return c.Current(), nil
	}
	t, meta, err := readLKG(c.cfg.LKGPath, c.cfg.MaxBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.log.Info(LogLKGMissing, "path", c.cfg.LKGPath)
		return nil, nil
	case errors.Is(err, errUnusable):
		return nil, c.setAsideLKG(err)
	case err != nil:
		c.log.Error(LogLKGUnreadable, "path", c.cfg.LKGPath, "error", err)
		return nil, fmt.Errorf("dataplane: LKG file: %w", err)
	}
	a := &applied{candidate: candidate{
		table: t, digest: t.Digest(), etags: namesOf(t), origin: meta.Origin, sourceRead: meta.Saved,
	}}
	a.info = Applied{
		Digest: t.Digest(), Revision: t.Revision(), Routes: t.Len(), Bytes: t.Bytes(), Origin: meta.Origin,
		Committed: time.Now(), SourceRead: meta.Saved, Stale: true,
	}
	c.cur.Store(a)
	close(c.ready)
	c.cfg.Metrics.show(t, &a.info)
	c.log.Info(LogLKGLoaded, append(describe(t), "path", c.cfg.LKGPath, "saved", meta.Saved, "origin", meta.Origin)...)
	c.lkg.loaded(a)
	c.waitFor(c.routes.save(a))
	return t, nil
}

// claimLKG makes sure that what is at the path may be replaced: an LKG file of ours, or nothing. Anything else is set
// aside, because it is not ours to delete.
func (c *Client) claimLKG() error {
	_, _, err := readLKG(c.cfg.LKGPath, c.cfg.MaxBytes)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return c.setAsideLKG(err)
}

func (c *Client) setAsideLKG(reason error) error {
	aside, err := durable.SetAside(c.cfg.LKGPath)
	c.log.Error(LogLKGSetAside, "path", c.cfg.LKGPath, "error", reason, "kept_as", aside, "set_aside_error", err)
	if err != nil && aside == "" {
		return fmt.Errorf("dataplane: set LKG file aside: %w", err)
	}
	return nil
}

// errUnusable is wrapped by errors of a file that could be read, and is not a good LKG file.
var errUnusable = errors.New("not a good LKG file")

// readLKG reads and verifies a file.
func readLKG(path string, limit int64) (*table.Table, table.FileMeta, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, table.FileMeta{}, err
	}
	if !info.Mode().IsRegular() {
		return nil, table.FileMeta{}, fmt.Errorf("%w: %w", errUnusable, errNotRegular)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, table.FileMeta{}, err
	}
	defer f.Close()
	limit += maxLKGHeader
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, table.FileMeta{}, err
	}
	if int64(len(data)) > limit {
		return nil, table.FileMeta{}, fmt.Errorf("%w: more than %d bytes", errUnusable, limit)
	}
	return parseLKG(data)
}

// parseLKG verifies the content of a file. A table whose digest is not that of the file was not written by this package.
func parseLKG(data []byte) (*table.Table, table.FileMeta, error) {
	t, meta, err := table.ParseFile(data)
	if err != nil {
		return nil, table.FileMeta{}, fmt.Errorf("%w: %w", errUnusable, err)
	}
	if t.Digest() != meta.Digest {
		return nil, table.FileMeta{}, fmt.Errorf("%w: text is not in canonical form", errUnusable)
	}
	return t, meta, nil
}
