package shadowdiff_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/shadowdiff"
)

// watched is a tracker with the time of its comparisons.
type watched struct {
	t   *testing.T
	tr  *shadowdiff.Tracker
	now time.Time
}

func watch(t *testing.T, most int) *watched {
	return &watched{t: t, tr: shadowdiff.NewLimitedTracker(most), now: time.Unix(1000, 0)}
}

// compare compares two documents some seconds after the last comparison.
func (w *watched) compare(seconds int, a, b string, revisions ...uint64) shadowdiff.Observation {
	w.t.Helper()
	w.now = w.now.Add(time.Duration(seconds) * time.Second)
	m := shadowdiff.Meta{Now: w.now}
	if len(revisions) == 2 {
		m.RevisionA, m.RevisionB = revisions[0], revisions[1]
	}
	return w.tr.Observe(shadowdiff.Diff(parse(w.t, a), parse(w.t, b)), m)
}

// state is an observation in short: "confirmed missing a (3)".
func state(o shadowdiff.Observation) string {
	var out []string
	for _, d := range o.Differences {
		s := "pending"
		if d.Confirmed {
			s = "confirmed"
		}
		out = append(out, fmt.Sprintf("%s %s %s (%d)", s, d.Kind, d.ID, d.Count))
	}
	return strings.Join(out, ", ")
}

const (
	with    = `a: * -> f() -> "http://x"; b: Foo() -> <shunt>`
	lacking = `b: Foo() -> <shunt>`
)

func TestDifferenceCountsWhenItPersists(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps []int // seconds
		want  string
	}{
		{"first", []int{0}, "pending missing a (1)"},
		{"second", []int{0, 3}, "pending missing a (2)"},
		{"third", []int{0, 3, 3}, "confirmed missing a (3)"},
		{"three in less than two intervals", []int{0, 1, 1}, "pending missing a (3)"},
		{"two in more than two intervals", []int{0, 10}, "pending missing a (2)"},
		{"many quick ones", []int{0, 1, 1, 1, 1, 1, 1}, "confirmed missing a (7)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := watch(t, 0)
			var o shadowdiff.Observation
			for _, s := range c.steps {
				o = w.compare(s, with, lacking)
			}
			if got := state(o); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestInterruptionBeginsAnew(t *testing.T) {
	w := watch(t, 0)
	w.compare(0, with, lacking)
	w.compare(3, with, lacking)
	w.compare(3, with, with)
	w.compare(3, with, lacking)
	if got, want := state(w.compare(3, with, lacking)), "pending missing a (2)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestAQuietSideIsBelieved has a side whose revision stays behind, because nothing that it serves is written to.
func TestAQuietSideIsBelieved(t *testing.T) {
	for _, c := range []struct {
		name string
		a, b uint64 // revisions
		// How much further the sources are read from one comparison to the next, in seconds.
		readA, readB int
		want         string
	}{
		{"B, and it is read", 9, 7, 3, 3, "confirmed missing a (11)"},
		{"A, and it is read", 7, 9, 3, 3, "confirmed missing a (11)"},
		{"B, which cannot read", 9, 7, 3, 0, "pending missing a (11)"},
		{"B, which was slow to read", 9, 7, 3, 2, "pending missing a (11)"},
		{"A, which cannot read", 7, 9, 0, 3, "pending missing a (11)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := watch(t, 0)
			a, b := parse(t, with), parse(t, lacking)
			begin := time.Unix(5000, 0) // another clock
			var o shadowdiff.Observation
			for i := range 11 {
				if i == 10 && strings.HasPrefix(state(o), "confirmed") {
					t.Error("confirmed before ten intervals")
				}
				w.now = w.now.Add(3 * time.Second)
				read := func(step int) time.Time { return begin.Add(time.Duration(i*step) * time.Second) }
				o = w.tr.Observe(shadowdiff.Diff(a, b), shadowdiff.Meta{
					RevisionA: c.a, RevisionB: c.b, ReadA: read(c.readA), ReadB: read(c.readB), Now: w.now,
				})
			}
			if got := state(o); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestRevisionsAndTimeProveADifference(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps [][2]uint64
		want  string
	}{
		{"same revision, not for long", [][2]uint64{{7, 7}, {7, 7}}, "pending missing a (2)"},
		{"same revision, for long", [][2]uint64{{7, 7}, {7, 7}, {7, 7}}, "confirmed missing a (3)"},
		{"B is behind", [][2]uint64{{9, 7}}, "pending missing a (1)"},
		{"A is behind", [][2]uint64{{7, 9}}, "pending missing a (1)"},
		{"B is behind for ever", [][2]uint64{{9, 7}, {10, 8}, {11, 8}, {12, 8}, {13, 8}}, "pending missing a (5)"},
		{"B has caught up", [][2]uint64{{9, 7}, {15, 9}, {15, 9}}, "confirmed missing a (3)"},
		{"the newer side has gone back", [][2]uint64{{9, 7}, {8, 9}}, "pending missing a (2)"},
		{"once proved it stays", [][2]uint64{{9, 9}, {9, 9}, {9, 9}, {12, 8}}, "confirmed missing a (4)"},
		{"revisions come later", [][2]uint64{{0, 9}, {8, 9}}, "pending missing a (2)"},
		{"revisions come later, caught up", [][2]uint64{{0, 9}, {8, 9}, {9, 9}}, "confirmed missing a (3)"},
		{"only one side has one", [][2]uint64{{0, 9}, {0, 9}}, "pending missing a (2)"},
		{"only one side has one, for long", [][2]uint64{{0, 9}, {0, 9}, {0, 9}}, "confirmed missing a (3)"},
		{"only the other side has one, for long", [][2]uint64{{9, 0}, {9, 0}, {9, 0}}, "confirmed missing a (3)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := watch(t, 0)
			var o shadowdiff.Observation
			for _, s := range c.steps {
				o = w.compare(3, with, lacking, s[0], s[1])
			}
			if got := state(o); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestChurnIsToldFromWhatStays(t *testing.T) {
	route := func(filter string, endpoint int) string {
		return fmt.Sprintf(`a: * -> %s -> <"http://x", "http://10.0.0.%d">`, filter, endpoint)
	}
	w, v := watch(t, 0), watch(t, 0)
	var clean time.Duration
	for i := range 20 {
		// B is always one version of the endpoints behind.
		o := w.compare(3, route("f()", i+1), route("f()", i))
		if got, want := state(o), fmt.Sprintf("pending changed a (%d)", i+1); got != want {
			t.Errorf("endpoints only: %s, want %s", got, want)
		}
		clean = o.Clean
		o = v.compare(3, route("f()", i+1), route("g()", i))
		if want := i >= 2; o.Confirmed.Changed == 1 != want {
			t.Errorf("a filter, too: comparison %d: %s", i+1, state(o))
		}
	}
	if clean != 57*time.Second {
		t.Errorf("endpoints only: clean for %v", clean)
	}
}

func TestClean(t *testing.T) {
	w := watch(t, 0)
	check := func(want time.Duration, o shadowdiff.Observation) {
		t.Helper()
		if o.Clean != want {
			t.Errorf("clean for %v, want %v", o.Clean, want)
		}
	}
	check(0, w.compare(3, with, with))
	check(3*time.Second, w.compare(3, with, with))
	check(6*time.Second, w.compare(3, with, lacking)) // skew
	check(9*time.Second, w.compare(3, with, with))
	w.compare(3, with, lacking)
	w.compare(3, with, lacking)
	check(0, w.compare(3, with, lacking)) // confirmed
	check(0, w.compare(3, with, with))
	check(30*time.Second, w.compare(30, with, with))
	check(0, w.compare(31, with, with)) // too long without a comparison
	// A side that stays behind is not clean, though nothing is proven.
	w.compare(3, with, lacking, 9, 7)
	w.compare(3, with, lacking, 9, 7)
	o := w.compare(3, with, lacking, 9, 7)
	check(0, o)
	if o.Confirmed.Differences() != 0 {
		t.Errorf("confirmed: %s", state(o))
	}
}

func TestDifferencesBeyondTheLimitStayPending(t *testing.T) {
	w := watch(t, 10)
	a := document(1000, 0)
	for i := range 4 {
		o := w.compare(3, a, "")
		if len(o.Differences) != 10 || o.Beyond != 990 {
			t.Fatalf("%d tracked, %d beyond", len(o.Differences), o.Beyond)
		}
		confirmed := 0
		if i >= 2 {
			confirmed = 10
		}
		if o.Confirmed != (shadowdiff.Kinds{Missing: confirmed}) || o.Pending != (shadowdiff.Kinds{Missing: 1000 - confirmed}) {
			t.Errorf("comparison %d: confirmed %+v, pending %+v", i+1, o.Confirmed, o.Pending)
		}
	}
	if o := w.compare(3, a, a); o.Beyond != 0 || len(o.Differences) != 0 {
		t.Errorf("%+v", o)
	}
	if o := w.compare(3, a, ""); o.Confirmed.Missing != 0 {
		t.Errorf("confirmed at once: %+v", o.Confirmed)
	}
}

// A route with a proven difference still counts when it begins to differ in another way.
func TestAConfirmedDifferenceIsNotCleanInAnotherForm(t *testing.T) {
	const a = `a: * -> f("x") -> <shunt>`
	w := watch(t, 0)
	for range 3 {
		w.compare(3, a, `a: * -> f("y") -> <shunt>`)
	}
	o := w.compare(3, a, `a: * -> f("z") -> <shunt>`)
	if o.Confirmed.Changed != 1 || o.Clean != 0 {
		t.Errorf("%s, clean for %v", state(o), o.Clean)
	}
	w.compare(3, a, a)
	if o := w.compare(3, a, a); o.Clean != 3*time.Second {
		t.Errorf("clean for %v after it went", o.Clean)
	}
	if o := w.compare(3, a, `a: * -> f("z") -> <shunt>`); o.Confirmed.Changed != 0 || o.Clean == 0 {
		t.Errorf("%s, clean for %v, when it comes back", state(o), o.Clean)
	}
}

// Comparisons with differences beyond the limit are not clean either, though the differences change each time.
func TestWhatIsBeyondTheLimitIsNotClean(t *testing.T) {
	w := watch(t, 10)
	for i := range 3 {
		var a strings.Builder
		for n := range 20 {
			fmt.Fprintf(&a, "r%d_%d: Path(\"/%d/%d\") -> <shunt>;", i, n, i, n)
		}
		o := w.compare(3, a.String(), "")
		if o.Clean > 0 || o.Beyond != 10 || o.Confirmed.Missing != 0 {
			t.Errorf("comparison %d: clean for %v, %d beyond, confirmed %+v", i+1, o.Clean, o.Beyond, o.Confirmed)
		}
	}
}

func TestManyPartsOfARouteAreBounded(t *testing.T) {
	w := watch(t, 0)
	a := "a: *" + strings.Repeat(` -> f("x")`, 500) + " -> <shunt>"
	for range 3 {
		if o := w.compare(3, a, "a: * -> <shunt>"); o.Comparisons == 3 && o.Confirmed.Changed != 1 {
			t.Error(state(o))
		}
	}
}
