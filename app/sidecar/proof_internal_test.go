package sidecar

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

// TestProofChooses: a proxy that was restarted twice with a table gets the proven one under the revision of the offered one, and newer tables with
// the next retry.
func TestProofChooses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProof(t.TempDir(), newMetrics(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
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
			p.serving(chosen, "test")
			return chosen
		}
		read := func(started time.Time) {
			p.read(time.Now(), &figures{started: started, applied: time.Now(), refused: 1})
		}
		good, fatal := offer("a: * -> <shunt>;", 1), offer("a: * -> <shunt>;\nb: Path(\"/\") -> <shunt>;", 2)
		start := time.Now()
		serve(good)
		for range 4 {
			time.Sleep(10 * time.Second)
			read(start)
		}
		if c, ok := p.proven(); !ok || c.Table.Digest() != good.Table.Digest() || p.unproven(good.Table.Digest()) || !p.unproven(fatal.Table.Digest()) {
			t.Fatalf("proven is %+v", c)
		}
		serve(fatal)
		for i, want := range []bool{false, true} {
			time.Sleep(10 * time.Second)
			read(time.Now().Add(-time.Second))
			if got := p.fallenBack(time.Now()); got != want {
				t.Errorf("restart %d: fallen back is %v, want %v", i+1, got, want)
			}
		}
		if o := serve(fatal); o.Table.Digest() != good.Table.Digest() || o.Table.Revision() != 2 || !o.Read.Held {
			t.Errorf("served is %s of revision %d, held %v", o.Table.Digest(), o.Table.Revision(), o.Read.Held)
		}
		if r := p.suspects(time.Now()); len(r) != 1 || r[0].Digest != fatal.Table.Digest() || r[0].Proven != good.Table.Digest() || r[0].Deaths != 2 || r[0].Evidence == "" {
			t.Errorf("reported is %+v", r)
		}
		if p.rejected() == "" || p.status().Instead != fatal.Table.Digest() {
			t.Errorf("rejected %q, status %+v", p.rejected(), p.status())
		}
		newer := offer("c: * -> <shunt>;", 3)
		if o := serve(newer); o.Table.Digest() != good.Table.Digest() || o.Table.Revision() != 3 {
			t.Errorf("served is %s of revision %d before the retry", o.Table.Digest(), o.Table.Revision())
		}
		time.Sleep(time.Minute)
		if o := serve(newer); o.Table != newer.Table || p.rejected() != "" {
			t.Errorf("served is %s at the retry, rejected %q", o.Table.Digest(), p.rejected())
		}
		for range 2 {
			read(p.rules.State().Started)
			time.Sleep(30 * time.Second)
		}
		read(p.rules.State().Started)
		if c, _ := p.proven(); c.Table != newer.Table || len(p.suspects(time.Now())) != 0 {
			t.Errorf("after the retry, proven is %+v, suspect %+v", c, p.suspects(time.Now()))
		}
	})
}
