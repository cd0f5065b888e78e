package dataplane

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/routesrv/routesrv/proxysafe"
	"github.com/routesrv/routesrv/table"
	"github.com/routesrv/routesrv/wire"
)

// maxLKGHeader is room for the metadata of the file.
const maxLKGHeader = 64 << 10

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
// It never fails, and never waits for what is at the path: a file that is torn, truncated, foreign or too large, a folder, a
// FIFO, or a file that cannot be read is set aside, or left alone and another name used, which the log and the status say.
func (c *Client) Boot() *table.Table {
	c.committing.Lock()
	defer c.committing.Unlock()
	if a := c.cur.Load(); a != nil || c.cfg.LKGPath == "" {
		return c.Current()
	}
	t, meta := c.loadLKG()
	if t == nil {
		return nil
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
	return t
}

// loadLKG gives the table of the LKG file, nil if there is none, and sees to it that the next write replaces a file of ours,
// or nothing: what else is there is not ours to delete.
func (c *Client) loadLKG() (t *table.Table, meta table.FileMeta) {
	found, troubles := c.lkg.store.Load(c.limit()+maxLKGHeader, func(r io.Reader, size int64) (err error) {
		t, meta, err = parseLKG(r, size)
		return err
	})
	for _, trouble := range troubles {
		attrs := []any{"path", trouble.Path, "error", trouble.Err}
		if trouble.KeptAs != "" {
			attrs = append(attrs, "kept_as", trouble.KeptAs)
		} else {
			attrs = append(attrs, "set_aside_error", trouble.MoveErr, "used_instead", trouble.Instead)
		}
		c.log.Error(LogLKGSetAside, attrs...)
	}
	c.lkg.claimedWith(troubles)
	if found {
		return t, meta
	}
	if len(troubles) == 0 {
		c.log.Info(LogLKGMissing, "path", c.cfg.LKGPath)
	}
	return nil, table.FileMeta{}
}

// parseLKG reads and verifies a file. A table whose digest is not that of the file was not written by this package.
func parseLKG(r io.Reader, size int64) (t *table.Table, meta table.FileMeta, err error) {
	defer func() {
		if f := caught(recover(), nil); f != nil {
			t, err = nil, fmt.Errorf("read LKG file: %w", f.Err)
		}
	}()
	if t, meta, err = table.ReadFile(r, size); err != nil {
		return nil, table.FileMeta{}, err
	}
	if t.Digest() != meta.Digest {
		return nil, table.FileMeta{}, errors.New("text is not in canonical form")
	}
	if err := proxysafe.CheckTable(nil, t); err != nil { // written by a version that did not check
		return nil, table.FileMeta{}, err
	}
	return t, meta, nil
}

// namesOf returns the ETags that route servers give to a table in the encodings that the client asks for. A table from a file has
// no ETag. Any of its names will do, because a server reads nothing but the digest and the revision. A server with other ETags
// does not know these, and sends the table.
func namesOf(t *table.Table) []string {
	zstd, gzip := wire.Tag{Digest: t.Digest(), Revision: t.Revision(), Encoding: wire.Zstd}, wire.Tag{Digest: t.Digest(), Revision: t.Revision(), Encoding: wire.Gzip}
	return []string{zstd.String(), gzip.String()}
}
