package publish_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

// shown is a cache that records its calls.
type shown struct {
	mu     sync.Mutex
	table  *table.Table
	tables int
	read   table.Read
}

// served, count and last return the table, the number of tables, and the last read.
func (s *shown) served() *table.Table {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table
}

func (s *shown) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tables
}

func (s *shown) last() table.Read {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read
}

func (s *shown) Restore(t *table.Table, _ time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table = t
}

func (s *shown) Publish(t *table.Table) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.table == nil || s.table.Digest() != t.Digest() {
		s.tables++
	}
	s.table = t
}

func (s *shown) Begin() func(*table.Table, table.Read) {
	return func(t *table.Table, r table.Read) {
		s.mu.Lock()
		s.read = r
		s.mu.Unlock()
		if t != nil {
			s.Publish(t)
		}
	}
}

// routes returns a table of routes, each given as "id: endpoint endpoint".
func routes(t *testing.T, lines ...string) *table.Table {
	t.Helper()
	var all []string
	for _, line := range lines {
		id, endpoints, _ := strings.Cut(line, ":")
		backend := "<shunt>"
		switch list := strings.Fields(endpoints); len(list) {
		case 0:
		case 1:
			backend = fmt.Sprintf("%q", "http://"+list[0])
		default:
			for i, e := range list {
				list[i] = fmt.Sprintf("%q", "http://"+e)
			}
			backend = "<roundRobin, " + strings.Join(list, ", ") + ">"
		}
		all = append(all, fmt.Sprintf(`%s: Path("/%s") -> %s;`, id, id, backend))
	}
	return document(t, all...)
}

func document(t *testing.T, lines ...string) *table.Table {
	t.Helper()
	parsed, err := table.Parse(strings.Join(lines, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	made, err := table.New(parsed, 1, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// waits reports whether a table waits while another one is served.
func waits(t *testing.T, served, next *table.Table) bool {
	t.Helper()
	s := &shown{}
	b := publish.NewBudget(s, time.Minute, nil)
	b.Begin()(served, table.Read{})
	b.Begin()(next, table.Read{})
	return s.last().Waiting
}

func TestOnlyAddsEndpoints(t *testing.T) {
	const lb = `a: Path("/a") -> status(1) -> <roundRobin, "http://10.0.0.1", "http://10.0.0.2">;`
	for _, c := range []struct {
		what          string
		before, after []string
		want          bool
	}{
		{"nothing", []string{lb}, []string{lb}, false},
		{"an endpoint more", []string{lb}, []string{`a: Path("/a") -> status(1) -> <roundRobin, "http://10.0.0.1", "http://10.0.0.2", "http://10.0.0.3">;`}, true},
		{"an endpoint less", []string{lb}, []string{`a: Path("/a") -> status(1) -> <roundRobin, "http://10.0.0.1", "http://10.0.0.3", "http://10.0.0.4">;`}, false},
		{"another filter", []string{lb}, []string{`a: Path("/a") -> status(2) -> <roundRobin, "http://10.0.0.1", "http://10.0.0.2", "http://10.0.0.3">;`}, false},
		{"another predicate", []string{lb}, []string{`a: Path("/b") -> status(1) -> <roundRobin, "http://10.0.0.1", "http://10.0.0.2", "http://10.0.0.3">;`}, false},
		{"another algorithm", []string{lb}, []string{`a: Path("/a") -> status(1) -> <random, "http://10.0.0.1", "http://10.0.0.2", "http://10.0.0.3">;`}, false},
		{"another scheme", []string{lb}, []string{`a: Path("/a") -> status(1) -> <roundRobin, "https://10.0.0.1", "https://10.0.0.2", "https://10.0.0.3">;`}, false},
		{
			"another zone", []string{`a: * -> <roundRobin, "http://10.0.0.1?zone=a", "http://10.0.0.2?zone=a">;`},
			[]string{`a: * -> <roundRobin, "http://10.0.0.1?zone=b", "http://10.0.0.2?zone=a", "http://10.0.0.3?zone=a">;`}, false,
		},
		{"the second endpoint", []string{`a: * -> "http://10.0.0.1";`}, []string{`a: * -> <roundRobin, "http://10.0.0.1", "http://10.0.0.2">;`}, true},
		{"another one and a second", []string{`a: * -> "http://10.0.0.3";`}, []string{`a: * -> <roundRobin, "http://10.0.0.1", "http://10.0.0.2">;`}, false},
		{"the last but one", []string{`a: * -> <roundRobin, "http://10.0.0.1", "http://10.0.0.2">;`}, []string{`a: * -> "http://10.0.0.1";`}, false},
		{"the first endpoint", []string{`a: * -> <shunt>;`}, []string{`a: * -> "http://10.0.0.1";`}, false},
		{"the first endpoints", []string{`a: * -> <shunt>;`}, []string{`a: * -> <roundRobin, "http://10.0.0.1", "http://10.0.0.2">;`}, false},
		{"another address", []string{`a: * -> "http://10.0.0.1";`}, []string{`a: * -> "http://10.0.0.2";`}, false},
		{"a new route", []string{lb}, []string{lb, `b: * -> <shunt>;`}, false},
		{"a route less", []string{lb, `b: * -> <shunt>;`}, []string{lb}, false},
		{
			"one of each", []string{lb, `b: * -> status(1) -> <shunt>;`},
			[]string{`a: Path("/a") -> status(1) -> <roundRobin, "http://10.0.0.1", "http://10.0.0.2", "http://10.0.0.3">;`, `b: * -> status(2) -> <shunt>;`}, false,
		},
	} {
		if got := waits(t, document(t, c.before...), document(t, c.after...)); got != c.want {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}

func budgetOf(t *testing.T, s *shown, reg prometheus.Registerer) *publish.Budget {
	t.Helper()
	return publish.NewBudget(s, 30*time.Second, reg)
}

func TestLazyChangesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shown{}
		b := budgetOf(t, s, nil)
		show := func(lines ...string) { b.Begin()(routes(t, lines...), table.Read{Newest: 7}) }
		is := func(what string, lines ...string) {
			t.Helper()
			synctest.Wait()
			if want := routes(t, lines...); s.served().Digest() != want.Digest() {
				t.Errorf("%s: served is\n%s\nwant\n%s", what, s.served().Text(), want.Text())
			}
		}
		show("a: 1", "b: 1")
		is("the first table", "a: 1", "b: 1")
		show("a: 1 2", "b: 1")
		is("an endpoint more", "a: 1", "b: 1")
		if !s.last().Waiting || s.last().Live {
			t.Errorf("the read that waits is %+v", s.last())
		}
		time.Sleep(20 * time.Second)
		show("a: 1 2", "b: 1 2")
		is("one more", "a: 1", "b: 1")
		time.Sleep(9 * time.Second)
		is("just before the limit", "a: 1", "b: 1")
		time.Sleep(time.Second)
		is("at the limit, without a read", "a: 1 2", "b: 1 2")

		show("a: 1 2", "b: 1 2 3")
		time.Sleep(29 * time.Second)
		is("the next one waits as long", "a: 1 2", "b: 1 2")
		show("a: 1", "b: 1 2 3")
		is("an endpoint that is removed takes it along", "a: 1", "b: 1 2 3")
		show("a: 1 2", "b: 1 2 3")
		show("a: 1", "b: 1 2 3")
		if s.last().Waiting {
			t.Error("nothing waits any more, and the read says otherwise")
		}
		time.Sleep(time.Hour)
		is("an endpoint that came and left", "a: 1", "b: 1 2 3")

		show("a: 1 2", "b: 1 2 3")
		b.Begin()(nil, table.Read{Held: true})
		time.Sleep(30 * time.Second)
		is("what waits is served during a hold", "a: 1 2", "b: 1 2 3")
		b.Publish(routes(t, "a: 1 2 3"))
		is("what somebody accepted", "a: 1 2 3")
	})
}

// TestARestoredTableWaitsForNobody: it is unknown how old the table is.
func TestARestoredTableWaitsForNobody(t *testing.T) {
	s := &shown{}
	b := budgetOf(t, s, nil)
	b.Restore(routes(t, "a: 1"), time.Time{})
	want := routes(t, "a: 1 2")
	b.Begin()(want, table.Read{})
	if s.served() != want {
		t.Errorf("served is %s", s.served().Text())
	}
}

// TestNoRemovedEndpointIsServed: whatever is added and removed, no served table has an endpoint or route that the source no
// longer has. After the limit the served table is that of the source.
func TestNoRemovedEndpointIsServed(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			s := &shown{}
			b := budgetOf(t, s, nil)
			state := map[string][]string{"a": {"1"}, "b": {"1", "2"}, "c": {"1", "2", "3"}}
			var now *table.Table
			for range 300 {
				id := []string{"a", "b", "c"}[rng.IntN(3)]
				if n := len(state[id]); n > 0 && rng.IntN(4) == 0 {
					state[id] = slices.Delete(slices.Clone(state[id]), 0, 1+rng.IntN(n))
				} else if e := fmt.Sprint(rng.IntN(9)); !slices.Contains(state[id], e) {
					state[id] = append(state[id], e)
				}
				var lines []string
				for id, endpoints := range state {
					slices.Sort(endpoints)
					lines = append(lines, id+": "+strings.Join(endpoints, " "))
				}
				slices.Sort(lines)
				now = routes(t, lines...)
				b.Begin()(now, table.Read{})
				synctest.Wait()
				if s.served().Digest() != now.Digest() && !waits(t, s.served(), now) {
					t.Fatalf("the source has\n%s\nserved is\n%s", now.Text(), s.served().Text())
				}
				time.Sleep(time.Duration(rng.IntN(5000)) * time.Millisecond)
			}
			time.Sleep(31 * time.Second)
			synctest.Wait()
			if s.served().Digest() != now.Digest() {
				t.Errorf("after the limit the source has\n%s\nserved is\n%s", now.Text(), s.served().Text())
			}
		})
	}
}

func TestSeriesOfABudget(t *testing.T) {
	reg := prometheus.NewRegistry()
	b := budgetOf(t, &shown{}, reg)
	for _, lines := range []string{"a: 1", "a: 1 2", "a: 1 2 3", "a: 2"} {
		b.Begin()(routes(t, lines), table.Read{})
	}
	const want = `
# HELP routesrv_endpoint_debounce_changes_total Changed tables: urgent ones are served at once, lazy ones only add endpoints and may wait (--endpoint-debounce).
# TYPE routesrv_endpoint_debounce_changes_total counter
routesrv_endpoint_debounce_changes_total{kind="lazy"} 2
routesrv_endpoint_debounce_changes_total{kind="urgent"} 1
# HELP routesrv_endpoint_debounce_waiting 1 while a table waits for --endpoint-debounce.
# TYPE routesrv_endpoint_debounce_waiting gauge
routesrv_endpoint_debounce_waiting 0
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	problems, err := testutil.GatherAndLint(reg)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v %v", []promlint.Problem(problems), err)
	}
}
