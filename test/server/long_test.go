//go:build !race

package server_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"net/http"

	"github.com/routesrv/routesrv/app/server"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// FuzzHostileTexts puts any text into every field of every kind of object, which are then read and compiled, and whose table is read. [TestHostileTextsCostOnlyTheirObject]
// does the same with a running server.
func FuzzHostileTexts(f *testing.F) {
	for i, text := range hostileTexts {
		if i%4 == 0 { // the test of the server has all of them
			f.Add(text, i%8 == 0)
		}
	}
	want := map[bool][]string{true: goodRoutes(f, hostileOptions(true)), false: goodRoutes(f, hostileOptions(false))}
	f.Fuzz(func(t *testing.T, text string, slices bool) {
		if strings.Contains(text, "good") || strings.Contains(text, "NS") || len(text) > 10_000 {
			return
		}
		result := compiledHostile(t, hostileOptions(slices), hostileCluster(t, always(text)))
		checkServed(t, string(table.Of(result.Routes, 1, time.Unix(1, 0)).Text()), want[slices])
	})
}

// TestHostileTextsCostOnlyTheirObject: hostile texts in every field of every kind of object, read, compiled, published and served.
func TestHostileTextsCostOnlyTheirObject(t *testing.T) {
	options := hostileOptions(true)
	want := goodRoutes(t, options)
	f := start(t, string(hostileCluster(t, always("x"))), func(cfg *server.Config) { cfg.Compile = options })
	f.ready()
	for round := range 3 { // each field has another text in each round, and each round has all texts
		f.apply(string(hostileCluster(t, func(n int) string { return hostileTexts[(n+round*31)%len(hostileTexts)] })))
		f.polled()
		if got := f.get("/routes"); got.status != http.StatusOK {
			t.Fatalf("round %d: status %d", round, got.status)
		} else {
			checkServed(t, got.body, want)
		}
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
	if log := f.log.String(); strings.Contains(log, "panic") {
		t.Errorf("a panic:\n%s", log)
	}
}

// TestHostileReviewsAreBounded: eight reviews of expensive objects in a row end before the API server gives up, which is after 2 s. The test measures
// processor time, to which other programs on the machine add nothing.
func TestHostileReviewsAreBounded(t *testing.T) {
	const limit = 2 * time.Second / 8
	j := judge(t, town(300), true)
	for i, o := range hostileObjects(t) {
		began := processorTime(t)
		if v, err := j.Review(kube.KindRouteGroup, o, nil); err != nil || len(v.Taken) == 0 {
			t.Errorf("hostile object %d: %+v, %v", i, v, err)
		}
		if took := processorTime(t) - began; took > limit {
			t.Errorf("the review of hostile object %d took %v, want %v at most", i, took, limit)
		} else {
			t.Logf("hostile object %d: %v", i, took)
		}
	}
}

// processorTime returns the processor time of this process.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// TestExpensiveQuestionsAreBounded: manifests of an attacker cost seconds at most, and nothing once the client has left.
func TestExpensiveQuestionsAreBounded(t *testing.T) {
	f := start(t, town(300), nil)
	f.polled()
	var body strings.Builder
	for i := range 6 {
		body.WriteString(hostile(i, 300, 50) + "---")
	}
	began := time.Now()
	status, text := f.takeovers("", body.String())
	if took := time.Since(began); status != http.StatusOK || took > 20*time.Second || !strings.Contains(text, "exceeded its budget") {
		t.Errorf("after %v: %d, %.300s", took, status, text)
	} else {
		t.Logf("%d bytes took %v", body.Len(), took)
	}
}

// TestRollBackOfHundredsOfObjects: one command pins them in parts, each with its own time limit, says how far it is, and how far it came if a part fails;
// the next call does the rest.
func TestRollBackOfHundredsOfObjects(t *testing.T) {
	const n = 700
	f := startReading(t, backend("s", "10.2.0.1")+ingresses(shops(n)...), true, func(cfg *server.Config) { cfg.Guard.MaxLoss = 1 })
	f.polled()
	before := time.Now().UTC().Format(time.RFC3339Nano)
	f.delete(shops(n)[:n-1]...)
	f.eventually("the loss", func() bool { return strings.Count(f.get("/routes").body, "kube_shop__") < 10 })
	b := &besides{f: f, slow: func(n int32) bool { return n == 2 }}
	roll := []string{"rollback", "--to=" + before, "--deleted", "--all", "--why=accident", "--yes", "--timeout=60s"}
	status, said := b.command(append(roll, "--timeout=15s")...)
	if status != 2 || !strings.Contains(said, "a: 500 of 699 objects pinned\n") || !strings.Contains(said, "500 of 699 objects pinned, then: no answer within 15s") ||
		!strings.Contains(said, "run the command again") {
		t.Errorf("status %d\n%s", status, tail(said))
	}
	if status, said = b.command(roll...); status != 0 || !strings.Contains(said, "a: 699 of 699 objects pinned\n") {
		t.Errorf("status %d\n%s", status, tail(said))
	}
	for i := range n {
		if name := shops(n)[i]; !strings.Contains(f.get("/routes").body, "kube_shop__"+name+"__") {
			t.Fatalf("%s is missing", name)
		}
	}
	if status, said = b.command("rollback", "--to=2001-01-01T00:00:00Z", "--all", "--why=x", "--yes"); status != 2 || !strings.Contains(said, "the history is younger than") {
		t.Errorf("a time before the history: status %d\n%s", status, said)
	}
	for _, wrong := range [][]string{{"rollback", "--all", "--why=x", "--yes"}, {"rollback", "1", "--to=12:00", "--all", "--why=x", "--yes"}} {
		if status, said = b.command(wrong...); status != 2 || !strings.Contains(said, "choose an entry of the history or --to TIME") {
			t.Errorf("%v: status %d\n%s", wrong, status, said)
		}
	}
}

// tail returns the last lines of a text.
func tail(text string) string {
	lines := strings.Split(text, "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}
