package sidecar

import (
	"log/slog"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/fleet"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

// TestProofByMetrics: a proxy that reads a file shows its restarts by the start of its process, and gets the proven table under the revision
// of the suspect one.
func TestProofByMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProof(t.TempDir(), true, func() *table.Table { return nil }, newMetrics(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
		defer p.flush()
		offer := func(text string, revision uint64) publish.Offer {
			t.Helper()
			routes, err := table.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			of, err := table.New(routes, revision, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			return publish.Offer{Table: of}
		}
		serve := func(o publish.Offer) publish.Offer {
			chosen := p.choose(o)
			p.serving(o, "test")
			return chosen
		}
		start := time.Now()
		read := func(started time.Time, refused uint64) bool {
			return p.read(&fleet.Figures{Started: started, Refused: map[string]uint64{"other": refused}})
		}
		good, fatal := offer("a: * -> <shunt>;", 1), offer("a: * -> <shunt>;\nb: Path(\"/\") -> <shunt>;", 2)
		serve(good)
		for range 4 {
			time.Sleep(10 * time.Second)
			read(start, 1)
		}
		if c, ok := p.proven(); !ok || c.Table.Digest() != good.Table.Digest() || p.unproven(good.Table.Digest()) || !p.unproven(fatal.Table.Digest()) {
			t.Fatalf("proven is %+v", c)
		}
		serve(fatal)
		for i, want := range []bool{false, true} {
			time.Sleep(10 * time.Second)
			if got := read(time.Now().Add(-time.Second), 1); got != want {
				t.Errorf("death %d: replace the table is %v, want %v", i+1, got, want)
			}
		}
		if o := serve(fatal); o.Table.Digest() != good.Table.Digest() || o.Table.Revision() != 2 || !o.Read.Held {
			t.Errorf("served is %s of revision %d, held %v", o.Table.Digest(), o.Table.Revision(), o.Read.Held)
		}
		if r := p.report(time.Now()); len(r) != 1 || r[0].Digest != fatal.Table.Digest() || r[0].Proven != good.Table.Digest() || r[0].Deaths != 2 || r[0].Evidence == "" {
			t.Errorf("reported is %+v", r)
		}
		if p.rejected() == "" || p.status().Instead != fatal.Table.Digest() {
			t.Errorf("rejected %q, status %+v", p.rejected(), p.status())
		}
		for i := range 100 {
			serve(offer("d: * -> setPath(\"/"+strconv.Itoa(i)+"\") -> <shunt>;", 2))
		}
		if n := len(p.tables); n > recentTables+4 {
			t.Errorf("%d tables are kept", n)
		}
		serve(fatal)
		time.Sleep(2 * time.Hour)
		if r := p.report(time.Now()); len(r) != 1 {
			t.Errorf("reported while the table is offered: %+v", r)
		}
		serve(offer("c: * -> <shunt>;", 3))
		if r := p.report(time.Now()); len(r) != 0 {
			t.Errorf("reported after an hour: %+v", r)
		}
	})
}
