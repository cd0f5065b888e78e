package httpserve

import (
	"time"

	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/internal/api"
)

// ReportTable returns the served table for a status, or nil before the first one.
func ReportTable(c *etagcache.Cache) *api.Table {
	t := c.Current()
	if t == nil {
		return nil
	}
	s := c.Status()
	return &api.Table{
		Digest: t.Digest(), Revision: s.Revision, ReadRevision: s.ReadRevision, Routes: t.Len(), Bytes: t.Bytes(),
		Zones: append([]string{}, t.Zones()...), Time: t.Time(), LastRead: s.LastRead, AgeSeconds: AgeSeconds(s.LastRead), Stale: s.Stale, Held: s.Held,
	}
}

// AgeSeconds returns the time since at, or 0 if at is unknown. The result is never negative, although the clocks of two machines
// differ.
func AgeSeconds(at time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return max(0, time.Since(at).Seconds())
}
