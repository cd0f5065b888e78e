package httpserve_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/httpserve"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/table"
)

var start = time.Date(2026, 11, 21, 4, 15, 45, 0, time.UTC)

// holder holds what a test says.
type holder struct {
	mu      sync.Mutex
	held    httpserve.Held
	holds   bool
	asked   int
	waiting chan struct{} // if not nil, Held waits for it
}

func (g *holder) Held() (httpserve.Held, bool) {
	if g.waiting != nil {
		<-g.waiting
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked++
	return g.held, g.holds
}

// hold makes the holder hold a table as a guard would.
func (g *holder) hold(t *testing.T, served, held *table.Table) {
	t.Helper()
	judge, err := guard.New(guard.Config{})
	if err != nil {
		t.Fatal(err)
	}
	loss := judge.Judge(served, held, guard.Held{}, start)
	if loss.Reason == "" {
		t.Fatal("nothing is suspicious")
	}
	state := api.Guard{
		Held: true, Digest: held.Digest(), Revision: held.Revision(), Routes: held.Len(),
		Reason: loss.Reason, Detail: loss.Detail, Since: start, ReleaseAt: start.Add(guard.DefaultHold),
	}
	if loss.Reason.Endless() {
		state.ReleaseAt = time.Time{}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held, g.holds = httpserve.Held{Served: served, Table: held, State: state}, true
}

// parse makes a table from a document.
func parse(t *testing.T, revision uint64, doc string) *table.Table {
	t.Helper()
	routes, err := table.Parse(doc)
	if err != nil {
		t.Fatal(err)
	}
	tab, err := table.New(routes, revision, start)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// get requests the page in a form.
func get(h http.Handler, accept string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/guard/held", nil)
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

const (
	servedDoc = `kube_rg__shop__cart__all__0_0: Path("/cart") -> "http://10.0.0.1";
kube_rg__shop__cart__all__1_0: Path("/size") -> <shunt>;
kube_pay__app__h____s: Path("/pay") -> status(200) -> <shunt>;
same: * -> <shunt>;`
	heldDoc = `kube_pay__app__h____s: Path("/pay") -> status(204) -> inlineContent("<script>alert(1)</script>") -> <shunt>;
same: * -> <shunt>;`
)

const wantText = `reason: hosts_lost
detail: DETAIL
digest: DIGEST
since: 2026-11-21T04:15:45Z
release: 2026-11-21T04:25:45Z at the earliest
accept: in the pod, with kubectl exec: routesrv accept DIGEST --why REASON

--- served: SERVED, 4 routes, revision 10
+++ held: DIGEST, 2 routes, revision 11

Ingress pay/app (from the id)
  ~ kube_pay__app__h____s
      filter 1        - status(200)
                      + status(204)
      filter 2        + inlineContent("<script>alert(1)</script>")

RouteGroup shop/cart (from the id)
  - kube_rg__shop__cart__all__0_0
      Path("/cart") -> "http://10.0.0.1"
  - kube_rg__shop__cart__all__1_0
      Path("/size") -> <shunt>

different: 3 of 4 routes: 2 missing, 0 extra, 1 changed
`

// sample is a holder that holds heldDoc.
func sample(t *testing.T) *holder {
	t.Helper()
	g := &holder{}
	served, held := parse(t, 10, servedDoc), parse(t, 11, heldDoc)
	g.held = httpserve.Held{Served: served, Table: held, State: api.Guard{
		Held: true, Digest: held.Digest(), Revision: 11, Routes: 2,
		Reason: guard.HostsLost, Detail: "DETAIL", Since: start, ReleaseAt: start.Add(10 * time.Minute),
	}}
	g.holds = true
	return g
}

func TestHeldAsText(t *testing.T) {
	g := sample(t)
	w := get(httpserve.HeldPage(g.Held, "routesrv accept"), "")
	got := strings.NewReplacer(g.held.Table.Digest().String(), "DIGEST", g.held.Served.Digest().String(), "SERVED").Replace(w.Body.String())
	if diff := cmp.Diff(wantText, got); diff != "" || w.Code != http.StatusOK {
		t.Errorf("%d (-want +got):\n%s", w.Code, diff)
	}
	for name, want := range map[string]string{
		"Content-Type": "text/plain; charset=utf-8", "Cache-Control": "no-store", "Vary": "Accept", "X-Content-Type-Options": "nosniff",
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestHeldAsJSON(t *testing.T) {
	g := sample(t)
	w := get(httpserve.HeldPage(g.Held, "routesrv accept"), "application/json")
	var got struct {
		Hold struct {
			Reason, Digest string
			Release        time.Time `json:"release_at"`
		}
		Accept     string
		Difference struct {
			Schema      string
			A, B        struct{ Label, Name string }
			Counts      map[string]int
			Differences []struct{ Kind, ID string }
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	digest := g.held.Table.Digest().String()
	if got.Hold.Reason != "hosts_lost" || got.Hold.Digest != digest || got.Hold.Release.IsZero() ||
		got.Accept != "routesrv accept "+digest+" --why REASON" {
		t.Errorf("hold %+v, accept %s", got.Hold, got.Accept)
	}
	d := got.Difference
	if d.Schema != "routesrv.shadowdiff/v1" || d.A.Label != "served" || d.B.Label != "held" || d.B.Name != digest || len(d.Differences) != 3 ||
		d.Counts["missing"] != 2 || d.Counts["changed"] != 1 || d.Counts["equal"] != 1 {
		t.Errorf("difference %+v", d)
	}
}

func TestNothingIsHeld(t *testing.T) {
	w := get(httpserve.HeldPage((&holder{}).Held, "routesrv accept"), "")
	if w.Code != http.StatusNotFound || !strings.HasPrefix(w.Body.String(), "no table is held") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestHeldBeforeAnyTableIsServed(t *testing.T) {
	g := &holder{}
	g.hold(t, nil, parse(t, 1, ""))
	w := get(httpserve.HeldPage(g.Held, "routesrv accept"), "")
	if !strings.Contains(w.Body.String(), "reason: empty\n") || !strings.Contains(w.Body.String(), "release: never by time, only by acceptance\n") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestHeldIsOfNow: the next request sees a new state, another held table and the end of the hold.
func TestHeldIsOfNow(t *testing.T) {
	g := sample(t)
	h := httpserve.HeldPage(g.Held, "routesrv accept")
	first := get(h, "").Body.String()
	if again := get(h, "").Body.String(); again != first {
		t.Errorf("the second answer is\n%s", again)
	}
	g.held.State.Detail = "ANOTHER"
	if got := get(h, "").Body.String(); !strings.Contains(got, "ANOTHER") {
		t.Error("the new state is not shown")
	}
	g.held.Table = parse(t, 12, heldDoc+"\nz: * -> <shunt>;")
	if got := get(h, "").Body.String(); !strings.Contains(got, "  + z\n") {
		t.Errorf("the new table is not shown:\n%s", got)
	}
	g.holds = false
	if got := get(h, ""); got.Code != http.StatusNotFound {
		t.Errorf("%d after the end of the hold", got.Code)
	}
}

// TestLargeDifferenceIsBounded: a table that lost 120,000 routes.
func TestLargeDifferenceIsBounded(t *testing.T) {
	var routes []table.Route
	for i := range 120_000 {
		id := fmt.Sprintf("kube_n%d__i%d__h__p__s", i%400, i)
		routes = append(routes, table.Route{ID: id, Text: id + `: Path("/` + id + `") -> setPath("/x") -> "http://10.0.0.1:80";`})
	}
	served, err := table.New(routes, 1, start)
	if err != nil {
		t.Fatal(err)
	}
	g := &holder{}
	g.hold(t, served, parse(t, 2, "a: * -> <shunt>;"))
	h := httpserve.HeldPage(g.Held, "routesrv accept")
	for accept, limit := range map[string]int{"text/plain": 2 << 20, "application/json": 8 << 20} {
		w := get(h, accept)
		if n := w.Body.Len(); n > limit {
			t.Errorf("%s: %d bytes, want at most %d", accept, n, limit)
		}
		if want := "120001 of 120001 routes: 120000 missing, 1 extra"; accept != "application/json" && !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s lacks %q", accept, want)
		}
		for _, want := range map[string][]string{
			"text/plain":       {"\n115001 more differences\n"},
			"application/json": {`"unlisted": 115001`},
		}[accept] {
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("%s lacks %q", accept, want)
			}
		}
	}
}

// TestARequestEndsWithItsClient: even while it waits for its turn.
func TestARequestEndsWithItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := sample(t)
		g.waiting = make(chan struct{})
		h := httpserve.HeldPage(g.Held, "routesrv accept")
		first := make(chan *httptest.ResponseRecorder, 1)
		go func() { first <- get(h, "") }()
		synctest.Wait() // it has the turn

		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan *httptest.ResponseRecorder, 1)
		go func() {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/guard/held", nil))
			ended <- w
		}()
		synctest.Wait()
		cancel()
		if w := <-ended; w.Body.Len() != 0 {
			t.Errorf("a client that is away was sent %s", w.Body)
		}
		close(g.waiting)
		if w := <-first; w.Code != http.StatusOK || g.asked != 1 {
			t.Errorf("%d, the holder was asked %d times", w.Code, g.asked)
		}

		// A request whose client disconnects during the comparison leaves no incomplete result.
		gone := httptest.NewRequestWithContext(ctx, http.MethodGet, "/guard/held", nil)
		g.held.Table = parse(t, 12, `z: Path("/z") -> <shunt>;`)
		for range 10 { // both cases of its wait are possible
			h.ServeHTTP(httptest.NewRecorder(), gone)
		}
		if w := get(h, ""); !strings.Contains(w.Body.String(), "  + z\n") {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}
