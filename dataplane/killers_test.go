package dataplane_test

import (
	"os"
	"testing"

	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/table"
)

// TestRouteThatNoProxySurvivesDoesNotCostTheOthers: a route server without our check may serve one. The client leaves it out, on
// every change, and never asks for a delta, because its text is not the server's.
func TestRouteThatNoProxySurvivesDoesNotCostTheOthers(t *testing.T) {
	const (
		others = `b: Path("/b") -> "http://10.0.0.2:80";`
		later  = `c: Path("/c") -> "http://10.0.0.3:80";`
	)
	w := newWorld(t, 1)
	c := w.client()
	w.servers[0].set(parseTable(t, endsProxies+"\n"+others, 1))
	mustPoll(t, c)
	holds(t, c, parseTable(t, others, 1))
	mustPoll(t, c) // 304
	holds(t, c, parseTable(t, others, 1))
	w.servers[0].set(parseTable(t, endsProxies+"\n"+others+"\n"+later, 2))
	mustPoll(t, c)
	want := parseTable(t, others+"\n"+later, 2)
	holds(t, c, want)
	fileHolds(t, fileOf(w.cfg), want)
	if n := w.log.count(dataplane.LogKillersLeftOut); n != 1 {
		t.Errorf("logged %d times that a route is left out, want 1, although the tables change", n)
	}
	if a := c.Status().Applied; a == nil || a.LeftOut != 1 {
		t.Errorf("the status has %+v, want one route left out", a)
	}
	w.servers[0].set(parseTable(t, others, 3))
	mustPoll(t, c)
	holds(t, c, parseTable(t, others, 3))
}

// TestFileWithARouteThatNoProxySurvivesStillBoots: an older version may have written it.
func TestFileWithARouteThatNoProxySurvivesStillBoots(t *testing.T) {
	const others = `b: Path("/b") -> "http://10.0.0.2:80";`
	w := newWorld(t, 1)
	content := marshal(t, parseTable(t, endsProxies+"\n"+others, 10), table.FileMeta{Origin: "somewhere"})
	if err := os.WriteFile(fileOf(w.cfg), content, 0o600); err != nil {
		t.Fatal(err)
	}
	c := w.client()
	if c.Boot() == nil {
		t.Fatal("the file was not used")
	}
	holds(t, c, parseTable(t, others, 10))
	next := parseTable(t, others, 11)
	w.servers[0].set(next)
	mustPoll(t, c)
	holds(t, c, next)
	fileHolds(t, fileOf(w.cfg), next)
}
