package bench

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/test/kubetest"
	"github.com/routesrv/routesrv/test/programs"
	"github.com/routesrv/routesrv/test/scale"
)

// TestChangeAllocatesNoMoreInALargerCluster: what a change allocates is mostly the texts of a few blocks of routes. These
// blocks happen to be 1.7 times as long in the larger one of the two clusters; one more allocation for each object, in any
// part of a route server that runs as users run it, fails the test.
func TestChangeAllocatesNoMoreInALargerCluster(t *testing.T) {
	const most = 2
	small, large := allocations(t, 0.03), allocations(t, 0.3)
	t.Logf("a change allocates %v, and %v in a cluster of ten times the size", small, large)
	if large.bytes > most*small.bytes || large.objects > most*small.objects {
		t.Errorf("a change in a cluster of ten times the size must allocate at most %d times as much", most)
	}
	if large.bytes > 8<<20 || large.objects > 40_000 {
		t.Error("a change must allocate at most 8 MiB in 40,000 objects")
	}
}

// allocated is what a process allocates, once or for each change.
type allocated struct{ bytes, objects float64 }

func (a allocated) String() string {
	return fmt.Sprintf("%.1f MB in %.0f objects", a.bytes/1e6, a.objects)
}

// allocations returns what a route server allocates for a change of one Ingress that it hears of in a watch.
func allocations(t *testing.T, factor float64) allocated {
	api := scale.New(factor).Handler()
	support := programs.FreeAddress(t)
	p := startWith(t, buildBinary(t), "-kubernetes", "-kubernetes-url="+kubetest.Serve(t, api), "--kubernetes-read=watch",
		"-enable-kubernetes-endpointslices", "-kubernetes-https-redirect", "--keep-takeovers=namespace", "--state-dir="+t.TempDir(), "-support-listener="+support)
	ctx, cancel := context.WithCancel(t.Context())
	stream := newStreamers(t, ctx, "http://"+p.main+"/routes/watch", p.etag(), 1)
	defer stream.done.Wait()
	defer cancel()
	change := func(n int) {
		api.Mutate(n)
		heard(stream)
		time.Sleep(50 * time.Millisecond) // what follows the table: takeovers, history
	}
	const changes = 10
	for n := range 3 { // the first ones fill what later ones use
		change(n)
	}
	scraped(t, support)
	before, after := scraped(t, support), scraped(t, support)
	own := allocated{after.bytes - before.bytes, after.objects - before.objects} // of a scrape
	for n := range changes {
		change(3 + n)
	}
	end := scraped(t, support)
	return allocated{(end.bytes - after.bytes - own.bytes) / changes, (end.objects - after.objects - own.objects) / changes}
}

// scraped returns what a process has allocated so far.
func scraped(t *testing.T, support string) (a allocated) {
	answer, err := programs.Fetch(t.Context(), "http://"+support+"/metrics", "")
	if err != nil || answer.Status != http.StatusOK {
		t.Fatalf("metrics: %d, %v", answer.Status, err)
	}
	for line := range strings.Lines(answer.Body) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch name {
		case "go_memstats_alloc_bytes_total":
			a.bytes, err = strconv.ParseFloat(value, 64)
		case "go_memstats_mallocs_total":
			a.objects, err = strconv.ParseFloat(value, 64)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if a.bytes == 0 || a.objects == 0 {
		t.Fatal("no metrics of allocations")
	}
	return a
}
