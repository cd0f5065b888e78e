package dataplane_test

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/eskip"
)

func TestDataClientGivesChanges(t *testing.T) {
	w := newWorld(t, 1)
	w.cfg.Guard.MaxLoss = 1
	c := w.client()
	d := dataplane.NewDataClient(c, 0)
	if _, err := d.LoadAll(); !errors.Is(err, dataplane.ErrNoTable) {
		t.Errorf("error %v", err)
	}
	if _, _, err := d.LoadUpdate(); !errors.Is(err, dataplane.ErrNoTable) {
		t.Errorf("error %v", err)
	}
	set := func(revision uint64, doc string) {
		w.servers[0].set(parseTable(t, doc, revision))
		mustPoll(t, c)
	}
	set(1, `a: * -> <shunt>; b: * -> <shunt>; d: * -> <shunt>;`)
	all, err := d.LoadAll()
	if got := ids(all); err != nil || got != "a b d" {
		t.Errorf("all are %s (%v)", got, err)
	}
	for i, test := range []struct{ doc, upserts, deleted string }{
		{`a: * -> <shunt>; b: * -> <shunt>; d: * -> <shunt>;`, "", ""},
		{`a: * -> <shunt>; b: * -> <loopback>; c: * -> <shunt>; d: * -> <shunt>;`, "b c", ""},
		{`b: * -> <loopback>; c: * -> <shunt>;`, "", "a d"},
		{`a: * -> <shunt>; c: * -> <loopback>; e: * -> <shunt>;`, "a c e", "b"},
	} {
		set(uint64(i+2), test.doc)
		upserts, deleted, err := d.LoadUpdate()
		if got := ids(upserts); err != nil || got != test.upserts || strings.Join(deleted, " ") != test.deleted {
			t.Errorf("%d: upserts %q, deleted %q (%v), want %q and %q", i, got, deleted, err, test.upserts, test.deleted)
		}
		if upserts, deleted, err := d.LoadUpdate(); len(upserts)+len(deleted) != 0 || err != nil {
			t.Errorf("%d: again upserts %q, deleted %q (%v)", i, ids(upserts), deleted, err)
		}
	}
}

func ids(routes []*eskip.Route) string {
	var ids []string
	for _, r := range routes {
		ids = append(ids, r.Id)
	}
	return strings.Join(ids, " ")
}

// TestUpdatesAddUpToTheTable: applying the updates, some of them late, leads to what LoadAll returns.
func TestUpdatesAddUpToTheTable(t *testing.T) {
	w := newWorld(t, 1)
	w.cfg.Guard.MaxLoss, w.cfg.StateDir = 1, ""
	c := w.client()
	chance := rand.New(rand.NewPCG(1, 2))
	d := dataplane.NewDataClient(c, 0)
	have := make(map[string]*eskip.Route)
	for revision := range uint64(200) {
		doc := "always: * -> <shunt>;"
		for i := range 20 {
			if n := chance.IntN(4); n > 0 {
				doc += fmt.Sprintf("r%d: Path(\"/%d\") -> setPath(\"/%d;\\n\") -> \"http://10.0.0.%d\";", i, i, n, n)
			}
		}
		w.servers[0].set(parseTable(t, doc, revision+1))
		mustPoll(t, c)
		if chance.IntN(3) == 0 {
			continue
		}
		upserts, deleted, err := d.LoadUpdate()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range upserts {
			have[r.Id] = r
		}
		for _, id := range deleted {
			if have[id] == nil {
				t.Fatalf("%s is deleted, and was not there", id)
			}
			delete(have, id)
		}
		all, err := dataplane.NewDataClient(c, 0).LoadAll()
		if err != nil {
			t.Fatal(err)
		}
		var sum []*eskip.Route
		for _, r := range have {
			sum = append(sum, r)
		}
		slices.SortFunc(sum, func(a, b *eskip.Route) int { return cmp.Compare(a.Id, b.Id) })
		if got, want := eskip.String(sum...), eskip.String(all...); got != want {
			t.Fatalf("the updates add up to\n%s\nwant\n%s", got, want)
		}
	}
}

func TestLoadAllWaitsForTheFirstTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		c := w.client()
		stop := w.run(c)
		defer stop()
		d := dataplane.NewDataClient(c, 30*time.Second)
		start := time.Now()
		if _, err := d.LoadAll(); !errors.Is(err, dataplane.ErrNoTable) || time.Since(start) != 30*time.Second {
			t.Errorf("error %v after %v", err, time.Since(start))
		}
		time.AfterFunc(10*time.Second, func() { w.servers[0].set(newTable(t, 1, "a", "b")) })
		routes, err := d.LoadAll()
		if got := ids(routes); err != nil || got != "a b" {
			t.Errorf("routes %s (%v) after %v", got, err, time.Since(start))
		}
	})
}

func TestRoutesBelongToTheCaller(t *testing.T) {
	w := newWorld(t, 1)
	w.servers[0].set(newTable(t, 1, "a", "b"))
	c := w.client()
	mustPoll(t, c)
	d := dataplane.NewDataClient(c, 0)
	first, err := d.LoadAll()
	if err != nil {
		t.Fatal(err)
	}
	want := eskip.String(first...)
	first[0].Filters[0].Args[0] = "/changed"
	second, err := d.LoadAll()
	if got := eskip.String(second...); err != nil || got != want {
		t.Errorf("routes are\n%s (%v)\nwant\n%s", got, err, want)
	}
}
