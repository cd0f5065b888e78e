package trial

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/publish"
)

// world is a table that grows: the routes of each namespace have its name and a number as their ids.
type world struct {
	t     *testing.T
	trial *Trial
	text  strings.Builder
	n     int
}

// add adds a route with a filter to a namespace, and returns its id.
func (w *world) add(namespace, filter string) (id string) {
	w.n++
	id = fmt.Sprintf("%s%d", namespace, w.n)
	fmt.Fprintf(&w.text, "%s: Path(%q) -> %s -> <shunt>;\n", id, "/"+id, filter)
	return id
}

func (w *world) review() publish.Objections {
	return w.trial.Review(nil, tableOf(w.t, w.text.String()))
}

// served waits until there is no objection to routes, and returns how long that took. each is called between two looks.
func (w *world) served(ids []string, each func()) time.Duration {
	w.t.Helper()
	began := time.Now()
	for {
		found := w.review()
		if !slices.ContainsFunc(ids, func(id string) bool { _, objects := found[id]; return objects }) {
			return time.Since(began)
		}
		for id, o := range found {
			if o.Lapsed {
				w.t.Fatalf("%s passes without a trial", id)
			}
		}
		select {
		case <-w.t.Context().Done():
			w.t.Fatalf("%+v", w.trial.Status())
		case <-w.trial.Changed():
		case <-time.After(20 * time.Millisecond):
		}
		if each != nil {
			each()
		}
	}
}

// TestInnocentsDoNotWait: whatever one namespace brings, the changes of others are tried in a few steps. A process of the stand-in takes 150 ms to come
// back, so the limit is a tenth of that for real proxies.
func TestInnocentsDoNotWait(t *testing.T) {
	const limit = time.Second
	innocents := func(w *world, namespaces, each int) (ids []string) {
		for i := range namespaces {
			for range each {
				ids = append(ids, w.add(string(rune('a'+i)), fmt.Sprintf("setPath(%d)", w.n)))
			}
		}
		return ids
	}
	for name, play := range map[string]func(w *world) time.Duration{
		"one killer after the other": func(w *world) time.Duration {
			kill := func() { w.add("evil", fmt.Sprintf("dieAtLoad(%d)", w.n)) }
			kill()
			ids := innocents(w, 12, 1)
			last := time.Now()
			return w.served(ids, func() {
				if time.Since(last) > 100*time.Millisecond {
					kill()
					last = time.Now()
				}
			})
		},
		"a flood": func(w *world) time.Duration {
			for range 5000 {
				w.add("evil", fmt.Sprintf("setQuery(%d)", w.n))
			}
			w.review()
			return w.served(innocents(w, 1, 1), nil)
		},
		"killers of one namespace": func(w *world) time.Duration {
			for range 8 {
				w.add("evil", fmt.Sprintf("dieAtLoad(%d)", w.n))
			}
			return w.served(innocents(w, 9, 3), nil)
		},
		"killers of many namespaces, once names are known": func(w *world) time.Duration {
			w.served(innocents(w, 1, 1), nil)
			for i := range 8 {
				w.add(fmt.Sprintf("evil_%c", 'a'+i), fmt.Sprintf("dieAtLoad(%d)", w.n))
			}
			return w.served(innocents(w, 26, 1), nil)
		},
		"one that dies in use": func(w *world) time.Duration {
			w.add("evil", "dieInUse()")
			return w.served(innocents(w, 12, 1), nil)
		},
		"one that blocks": func(w *world) time.Duration {
			w.add("evil", "hangAtLoad()")
			return w.served(innocents(w, 4, 1), nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStandIn(t)
				s.slow = 120 * time.Millisecond
				w := &world{t: t, trial: start(t, s, Config{Namespaces: byRoute})}
				if took := play(w); took > limit {
					t.Errorf("innocents waited for %v", took)
				} else {
					t.Logf("innocents waited for %v, the proxy died %d times", took, s.deaths.Load())
				}
			})
		})
	}
}

// TestANamespaceThatBehavesIsTriedWithOthers: its delay doubles with each turn that costs a process, and ends once nothing fails.
func TestANamespaceThatBehavesIsTriedWithOthers(t *testing.T) {
	now := time.Now()
	trial := New(Config{Support: &url.URL{Host: "127.0.0.1:1"}, Namespaces: byRoute})
	turn := func(filter string, kind Result) time.Duration {
		trial.Review(nil, tableOf(t, "evil1: * -> "+filter+" -> <shunt>;"))
		before := now
		for len(trial.asked) > 0 {
			s := trial.next(now)
			if len(s.units) == 0 {
				now = now.Add(time.Second)
				continue
			}
			trial.record(s, outcome{result: kind}, sign{}, now)
		}
		return now.Sub(before).Round(time.Second)
	}
	var waits []time.Duration
	for i := range 8 {
		waits = append(waits, turn(fmt.Sprintf("f(%d)", i), Died))
	}
	s := time.Second
	if want := []time.Duration{0, 10 * s, 20 * s, 40 * s, 80 * s, 160 * s, 320 * s, 600 * s}; !slices.Equal(waits, want) {
		t.Errorf("it waited %v, want %v", waits, want)
	}
	for i := range 10 {
		turn(fmt.Sprintf("g(%d)", i), Accepted)
	}
	if of := trial.tenants["evil"]; of != nil && of.faults > 0 {
		t.Errorf("it is still tried alone: %+v", of)
	}
}

// TestWhatNobodyWantsIsForgotten: neither its text nor its namespace stays in memory, and a namespace has a limit.
func TestWhatNobodyWantsIsForgotten(t *testing.T) {
	trial := New(Config{Support: &url.URL{Host: "127.0.0.1:1"}, Namespaces: byRoute})
	w := &world{t: t, trial: trial}
	for range maxWaiting + 100 {
		w.add("evil", fmt.Sprintf("f(%d)", w.n))
	}
	w.add("a", "g()")
	found := w.review()
	if len(found) != maxWaiting+101 || len(trial.asked) != maxWaiting+1 {
		t.Errorf("%d objections, %d calls wait", len(found), len(trial.asked))
	}
	for id, o := range found {
		if !o.Pending {
			t.Fatalf("%s: %+v", id, o)
		}
	}
	for _, a := range trial.asked {
		a.wanted = a.wanted.Add(-2 * unwanted)
	}
	trial.Review(nil, tableOf(t, "a1: * -> g() -> <shunt>;"))
	if s := trial.next(time.Now()); len(s.calls()) != 1 {
		t.Errorf("next are %v", s.calls())
	}
	if left := slices.Collect(maps.Keys(trial.tenants)); !slices.Equal(left, []string{"a"}) {
		t.Errorf("namespaces are %v", left)
	}
}

// TestOnlyTheProxyFetches: with a proxy on this machine, a request from elsewhere is no sign that it has its table, and starts no time limit.
func TestOnlyTheProxyFetches(t *testing.T) { synctest.Test(t, testOnlyTheProxyFetches) }

func testOnlyTheProxyFetches(t *testing.T) {
	trial := New(Config{Support: newStandIn(t).support})
	_, fetched := trial.doc.set(calls("f()"))
	for _, from := range []string{"10.2.0.9:4711", "127.0.0.1:4711"} {
		request := httptest.NewRequest(http.MethodGet, "/trial/routes", nil)
		request.RemoteAddr = from
		trial.ServeHTTP(httptest.NewRecorder(), request)
		select {
		case <-fetched:
			if from != "127.0.0.1:4711" {
				t.Errorf("a request from %s counts", from)
			}
		default:
			if from == "127.0.0.1:4711" {
				t.Error("the request of the proxy does not count")
			}
		}
	}
}
