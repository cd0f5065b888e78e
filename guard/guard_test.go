package guard_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/table"
)

var start = time.Date(2026, 11, 21, 4, 15, 45, 0, time.UTC)

// tableOf makes a table of routes, each given as "id" or "id@host,host".
func tableOf(t *testing.T, routes ...string) *table.Table {
	t.Helper()
	var list []table.Route
	for _, r := range routes {
		id, hosts, _ := strings.Cut(r, "@")
		predicate := "*"
		if hosts != "" {
			hosts = "^(" + strings.ReplaceAll(hosts, ",", "|") + ")$"
			predicate = "Host(/" + hosts + "/)"
		}
		list = append(list, table.Route{ID: id, Text: id + ": " + predicate + " -> <shunt>;", Hosts: hosts})
	}
	tab, err := table.New(list, 1, start)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// numbered returns the ids r<from> to r<to-1>.
func numbered(from, to int) []string {
	var ids []string
	for i := from; i < to; i++ {
		ids = append(ids, fmt.Sprintf("r%d", i))
	}
	return ids
}

func newGuard(t *testing.T, cfg guard.Config) *guard.Guard {
	t.Helper()
	g, err := guard.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestRules(t *testing.T) {
	r := func(routes ...string) []string { return routes }
	tests := []struct {
		name      string
		cfg       guard.Config
		served    []string // nil: nothing is served
		candidate []string
		want      guard.Code
		detail    string
	}{
		{name: "first table passes", candidate: r("a")},
		{name: "first table of generated routes passes", candidate: r("kube__redirect")},
		{name: "first table above a ceiling passes", cfg: guard.Config{MaxRoutes: 1}, candidate: r("a", "b")},
		{name: "first table without routes is held", candidate: r(), want: guard.Empty},
		{name: "table without routes is held", served: r("a"), candidate: r(), want: guard.Empty},
		{name: "empty goes before every other reason", served: r("a", "b"), candidate: r(), want: guard.Empty},

		{name: "no change passes", served: r("a", "b"), candidate: r("a", "b")},
		{name: "new routes pass", served: r("a"), candidate: r("a", "b", "c")},

		{
			name: "only generated routes are held", served: r("a", "kube__redirect"), candidate: r("kube__redirect"),
			want: guard.OnlyGenerated, detail: "all 1 routes are generated; 2 are served",
		},
		{
			name: "clones of generated routes are generated", served: r("a"),
			candidate: r("clone_kube__redirect", "clone_clone_kube__healthz_up", "kube__healthz_down", "__oauth2_grant_callback"),
			want:      guard.OnlyGenerated,
		},
		{name: "a catch-all is not generated", served: r("kube___catchall__a____"), candidate: r("kube___catchall__a____", "kube__redirect")},
		{name: "generated routes may follow generated routes", served: r("kube__healthz_up", "kube__redirect"), candidate: r("kube__redirect")},

		{name: "half of the routes may go", served: r("a", "b", "c", "d"), candidate: r("c", "d")},
		{
			name: "more than half may not", served: r("a", "b", "c", "d"), candidate: r("d"),
			want: guard.RoutesLost, detail: "3 of 4 pairs of host and path are gone (75.0 %, limit 50.0 %)",
		},
		{name: "two of three are more than half", served: r("a", "b", "c"), candidate: r("a"), want: guard.RoutesLost},
		{name: "one of one is more than half", served: r("a"), candidate: r("b"), want: guard.RoutesLost},
		{name: "new routes do not make up for lost ones", served: r("a", "b"), candidate: r("c", "d", "e"), want: guard.RoutesLost},
		{name: "the limit can be lower", cfg: guard.Config{MaxLoss: 0.1}, served: numbered(0, 10), candidate: numbered(2, 10), want: guard.RoutesLost},
		{name: "at the lower limit passes", cfg: guard.Config{MaxLoss: 0.1}, served: numbered(0, 10), candidate: numbered(1, 10)},
		{name: "a limit of 1 switches loss off", cfg: guard.Config{MaxLoss: 1}, served: r("a@h"), candidate: r("b")},
		{name: "but not the rule of generated routes", cfg: guard.Config{MaxLoss: 1}, served: r("a"), candidate: r("kube__redirect"), want: guard.OnlyGenerated},

		{
			name: "more than half of the hosts may not go", served: r("a@h1", "b@h2,h3", "c", "d", "e"), candidate: r("b@h2", "c", "d", "e"),
			want: guard.HostsLost, detail: "2 of 3 hosts are gone (66.7 %, limit 50.0 %)",
		},
		{name: "most of the pairs of a host are lost pairs", served: r("a@h1", "b@h2,h3", "c@h1"), candidate: r("a", "b@h2", "c"), want: guard.RoutesLost},
		{name: "half of the hosts may go", served: r("a@h1,h2", "b"), candidate: r("a@h1", "b")},
		{name: "a host is kept by any route", served: r("a@h1", "b@h1"), candidate: r("a", "b@h1,h2")},
		{
			name: "but not by its catch-all, which answers for nobody", served: r("a@h1", "b@h2", "c@h3", "d", "e", "kube___catchall__h1____@h1", "kube___catchall__h2____@h2"),
			candidate: r("c@h3", "d", "e", "kube___catchall__h1____@h1", "kube___catchall__h2____@h2"),
			want:      guard.HostsLost, detail: "2 of 3 hosts are gone (66.7 %, limit 50.0 %)",
		},

		{
			name: "growth past the ceiling of routes is held", cfg: guard.Config{MaxRoutes: 3}, served: numbered(0, 3), candidate: numbered(0, 4),
			want: guard.TooManyRoutes, detail: "4 routes, limit 3; 3 are served",
		},
		{name: "growth to the ceiling passes", cfg: guard.Config{MaxRoutes: 3}, served: numbered(0, 2), candidate: numbered(0, 3)},
		{name: "growth above the ceiling passes", cfg: guard.Config{MaxRoutes: 3}, served: numbered(0, 4), candidate: numbered(0, 5)},
		{
			name: "growth past the ceiling of bytes is held", cfg: guard.Config{MaxBytes: 40}, served: numbered(0, 2), candidate: numbered(0, 3),
			want: guard.TooLarge, detail: "53 bytes, limit 40; 35 are served",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			g := newGuard(t, test.cfg)
			var served *table.Table
			if test.served != nil {
				served = tableOf(t, test.served...)
			}
			got := g.Judge(served, tableOf(t, test.candidate...), start)
			if got.Reason != test.want || got.Publish != (test.want == "") {
				t.Errorf("got reason %q, publish %v, detail %q; want reason %q", got.Reason, got.Publish, got.Detail, test.want)
			}
			if test.detail != "" && got.Detail != test.detail {
				t.Errorf("got detail %q, want %q", got.Detail, test.detail)
			}
		})
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, cfg := range []guard.Config{
		{MaxLoss: -0.1}, {MaxLoss: 1.1}, {MaxLoss: math.NaN()}, {MaxBackendLoss: 1.1}, {MaxBackendLoss: math.NaN()},
		{Window: -1}, {Hold: -1}, {MaxRoutes: -1}, {MaxBytes: -1},
	} {
		if _, err := guard.New(cfg); err == nil {
			t.Errorf("New(%+v) gave no error", cfg)
		}
	}
}

// step is one judgement of a history: what was read when, and the expected outcome.
type step struct {
	at      time.Duration
	read    []string
	publish bool
	reason  guard.Code
}

// play judges a history. A published table is served from then on.
func play(t *testing.T, g *guard.Guard, served []string, steps []step) {
	t.Helper()
	cur := tableOf(t, served...)
	for i, s := range steps {
		candidate := tableOf(t, s.read...)
		got := g.Judge(cur, candidate, start.Add(s.at))
		if got.Publish != s.publish || got.Reason != s.reason {
			t.Fatalf("step %d at %v: got publish %v, reason %q; want %v, %q", i, s.at, got.Publish, got.Reason, s.publish, s.reason)
		}
		if got.Publish {
			cur = candidate
		}
	}
}

func TestHold(t *testing.T) {
	const hold = time.Minute
	full := numbered(0, 10)
	few := numbered(0, 3)
	fewer := numbered(0, 2)
	none := []string{"kube__redirect"}
	tests := []struct {
		name  string
		steps []step
	}{
		{"is released when every read agreed", []step{
			{0, few, false, guard.RoutesLost},
			{30 * time.Second, few, false, guard.RoutesLost},
			{hold - 1, few, false, guard.RoutesLost},
			{hold, few, true, guard.RoutesLost},
			{hold + 1, few, true, ""},
		}},
		{"needs two reads only, if others failed in between", []step{
			{0, few, false, guard.RoutesLost},
			{10 * hold, few, true, guard.RoutesLost},
		}},
		{"releases the newest table", []step{
			{0, few, false, guard.RoutesLost},
			{hold, fewer, true, guard.RoutesLost},
			{hold + 1, fewer, true, ""},
		}},
		{"ends when a read shows the served table", []step{
			{0, few, false, guard.RoutesLost},
			{30 * time.Second, full, true, ""},
			{hold, few, false, guard.RoutesLost},
			{2*hold - 1, few, false, guard.RoutesLost},
			{2 * hold, few, true, guard.RoutesLost},
		}},
		{"never releases what follows only generated routes, before nearly all is back", []step{
			{0, few, false, guard.RoutesLost},
			{30 * time.Second, none, false, guard.OnlyGenerated},
			{hold, none, false, guard.OnlyGenerated},
			{90 * time.Second, few, false, guard.OnlyGenerated},
			{100 * hold, few, false, guard.OnlyGenerated},
			{200 * hold, numbered(0, 9), false, guard.OnlyGenerated},
			{300 * hold, numbered(0, 9), false, guard.OnlyGenerated},
			{400 * hold, full, true, ""},
		}},
		{"never lets only generated routes pass", []step{
			{0, none, false, guard.OnlyGenerated},
			{hold, none, false, guard.OnlyGenerated},
			{1000 * hold, none, false, guard.OnlyGenerated},
		}},
		{"never lets an empty table pass", []step{
			{0, nil, false, guard.Empty},
			{hold, nil, false, guard.Empty},
			{1000 * hold, nil, false, guard.Empty},
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			play(t, newGuard(t, guard.Config{Hold: hold}), full, test.steps)
		})
	}
}

func TestLossOfRoutesAndOfHostsAreOneKind(t *testing.T) {
	g := newGuard(t, guard.Config{Hold: time.Minute})
	served := []string{"a@h1", "b@h2", "c@h3", "d@h4", "e", "f", "g"}
	play(t, g, served, []step{
		{0, []string{"a@h1", "e", "f", "g"}, false, guard.HostsLost},
		{time.Minute, []string{"a@h1"}, true, guard.RoutesLost},
	})
}

// TestManualRelease: time releases nothing, and the window does not let a loss in steps pass.
func TestManualRelease(t *testing.T) {
	for _, test := range []struct {
		name  string
		steps []step
	}{
		{"one loss", []step{
			{0, numbered(0, 3), false, guard.RoutesLost},
			{100 * time.Hour, numbered(0, 3), false, guard.RoutesLost},
			{200 * time.Hour, numbered(0, 2), false, guard.RoutesLost},
			{300 * time.Hour, numbered(0, 10), true, ""},
		}},
		{"loss in steps", []step{
			{0, numbered(0, 6), true, ""},
			{time.Second, numbered(0, 4), false, guard.RoutesLost},
			{time.Hour, numbered(0, 4), false, guard.RoutesLost},
			{2 * time.Hour, numbered(0, 2), false, guard.RoutesLost},
			{3 * time.Hour, []string{"kube__redirect"}, false, guard.OnlyGenerated},
			{4 * time.Hour, numbered(0, 4), false, guard.OnlyGenerated},
			{5 * time.Hour, numbered(0, 5), false, guard.OnlyGenerated},
			{6 * time.Hour, numbered(0, 6), true, ""},
			{7 * time.Hour, numbered(0, 3), true, ""},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := newGuard(t, guard.Config{Manual: true, Hold: time.Second})
			play(t, g, numbered(0, 10), test.steps)
		})
	}
	t.Run("says so", func(t *testing.T) {
		g := newGuard(t, guard.Config{Manual: true})
		few := tableOf(t, "a")
		if v := g.Judge(tableOf(t, "a", "b", "c"), few, start); v.Publish || !v.ReleaseAt.IsZero() || !v.Since.Equal(start) {
			t.Errorf("got %+v, want a hold without an end", v)
		}
		if _, err := g.Accept(guard.Acceptance{Digest: few.Digest()}, start); err != nil {
			t.Errorf("accept: %v", err)
		}
	})
}

// TestWindowGoesOnDuringAHold: a slow change during a hold does not count as a sudden loss, however long the hold lasts.
func TestWindowGoesOnDuringAHold(t *testing.T) {
	g := newGuard(t, guard.Config{Manual: true})
	held := backed(t, 10, 0, noEndpoints)
	served := backed(t, 100, 0, noEndpoints)
	for i := range 18 { // each loses 5 of 100, every twenty minutes
		now := start.Add(time.Duration(i) * 20 * time.Minute)
		if v := g.Judge(served, held, now); v.Reason != guard.RoutesLost || v.Publish {
			t.Fatalf("read %d: %+v", i, v)
		}
		next := backed(t, 100, 5*(i+1), noEndpoints)
		if l := g.Compare(served, next, now); l.Reason != "" {
			t.Fatalf("%d of 100 have no endpoints: %s", 5*(i+1), l.Reason)
		}
		served = next
	}
}

// TestHoldAsLongAsTheWindow: a loss in steps is released as such a loss, and does not end as if there had been none.
func TestHoldAsLongAsTheWindow(t *testing.T) {
	g := newGuard(t, guard.Config{})
	play(t, g, numbered(0, 10), []step{
		{0, numbered(0, 6), true, ""},
		{time.Minute, numbered(0, 4), false, guard.RoutesLost},
		{time.Minute + guard.DefaultHold - 1, numbered(0, 4), false, guard.RoutesLost},
		{time.Minute + guard.DefaultHold, numbered(0, 4), true, guard.RoutesLost},
	})
}

func TestVerdictSaysWhenItCanBeReleased(t *testing.T) {
	g := newGuard(t, guard.Config{Hold: time.Hour})
	full := tableOf(t, "a", "b", "c")
	v := g.Judge(full, tableOf(t, "a"), start)
	if !v.Since.Equal(start) || !v.ReleaseAt.Equal(start.Add(time.Hour)) {
		t.Errorf("got %+v, want a hold from %v for an hour", v, start)
	}
	for i, routes := range [][]string{{}, {"kube__redirect"}} {
		at := start.Add(time.Duration(i+1) * time.Minute)
		v = g.Judge(full, tableOf(t, routes...), at)
		if !v.Since.Equal(start) || !v.ReleaseAt.IsZero() {
			t.Errorf("%v: got %+v, want no release by time", routes, v)
		}
	}
}

func TestAccept(t *testing.T) {
	full, few := tableOf(t, "a", "b", "c"), tableOf(t, "a")
	t.Run("releases what is held", func(t *testing.T) {
		g := newGuard(t, guard.Config{})
		g.Judge(full, few, start)
		got, err := g.Accept(guard.Acceptance{Digest: few.Digest(), By: "ann", Why: "moved"}, start.Add(time.Second))
		if err != nil || got != few {
			t.Fatalf("got %v, %v; want the held table", got, err)
		}
		s := g.State()
		want := guard.Release{
			Digest: few.Digest(), Reason: guard.RoutesLost, Since: start, At: start.Add(time.Second), Accepted: true, By: "ann", Why: "moved",
		}
		if s.Held || s.Last == nil || *s.Last != want {
			t.Errorf("state %+v, last release %+v; want nothing held and %+v", s, s.Last, want)
		}
	})
	t.Run("lets the next read of the same content pass", func(t *testing.T) {
		g := newGuard(t, guard.Config{})
		g.Judge(full, few, start)
		if _, err := g.Accept(guard.Acceptance{Digest: few.Digest()}, start); err != nil {
			t.Fatal(err)
		}
		if v := g.Judge(full, few, start.Add(time.Second)); !v.Publish {
			t.Errorf("got %+v, want publish", v)
		}
	})
	t.Run("is not for content that comes later", func(t *testing.T) {
		g := newGuard(t, guard.Config{})
		g.Judge(full, few, start)
		if _, err := g.Accept(guard.Acceptance{Digest: few.Digest()}, start); err != nil {
			t.Fatal(err)
		}
		if v := g.Judge(full, tableOf(t, "b"), start.Add(time.Second)); v.Publish {
			t.Errorf("got %+v, want the other table held", v)
		}
		if v := g.Judge(full, few, start.Add(2*time.Second)); v.Publish {
			t.Errorf("got %+v, want an acceptance to be used up", v)
		}
	})
	t.Run("releases an empty table", func(t *testing.T) {
		g := newGuard(t, guard.Config{})
		empty := tableOf(t)
		g.Judge(full, empty, start)
		if got, err := g.Accept(guard.Acceptance{Digest: empty.Digest()}, start); err != nil || got != empty {
			t.Errorf("got %v, %v; want the empty table", got, err)
		}
	})
	t.Run("refuses another digest", func(t *testing.T) {
		g := newGuard(t, guard.Config{})
		g.Judge(full, few, start)
		_, err := g.Accept(guard.Acceptance{Digest: full.Digest()}, start)
		refuses(t, g, err, guard.ErrNotHeld, few, "another table is held: "+few.Digest().String())
	})
	t.Run("refuses no digest", func(t *testing.T) {
		g := newGuard(t, guard.Config{})
		g.Judge(full, few, start)
		_, err := g.Accept(guard.Acceptance{By: "ann", Why: "all of it"}, start)
		refuses(t, g, err, guard.ErrNoDigest, few, "say which table you accept, by its digest; held is "+few.Digest().String())
	})
	t.Run("refuses when nothing is held", func(t *testing.T) {
		g := newGuard(t, guard.Config{})
		if _, err := g.Accept(guard.Acceptance{}, start); !errors.Is(err, guard.ErrNothingHeld) {
			t.Errorf("got %v, want ErrNothingHeld", err)
		}
	})
}

// refuses checks a refused acceptance: the error, the description of what is held, and that the hold continues.
func refuses(t *testing.T, g *guard.Guard, err, want error, held *table.Table, text string) {
	t.Helper()
	refused, ok := errors.AsType[*guard.HeldError](err)
	if !errors.Is(err, want) || !ok || refused.Digest != held.Digest() || refused.Reason != guard.RoutesLost || err.Error() != text {
		t.Errorf("got %v, want %q with the held table", err, text)
	}
	if !g.State().Held {
		t.Error("the hold ended")
	}
}

func TestStateSaysWhatIsHeld(t *testing.T) {
	g := newGuard(t, guard.Config{})
	if s := g.State(); s != (guard.State{}) {
		t.Errorf("got %+v, want nothing", s)
	}
	full, few := tableOf(t, "a", "b", "c"), tableOf(t, "a")
	g.Judge(full, few, start)
	v := g.Judge(full, few, start.Add(time.Second))
	s := g.State()
	want := guard.State{Held: true, Verdict: v, Digest: few.Digest(), Revision: 1, Routes: 1, Bytes: few.Bytes(), Polls: 2}
	if s != want {
		t.Errorf("got %+v, want %+v", s, want)
	}
	for range 2 {
		if got, held := g.Held(); got != v || !held {
			t.Errorf("held %v for %+v, want %+v", held, got, v)
		}
	}
	g.Judge(full, few, start.Add(time.Hour))
	if got, held := g.Held(); held || got != (guard.Verdict{}) {
		t.Errorf("held for %+v after the release", got)
	}
	s = g.State()
	if s.Held || s.Last == nil || s.Last.Accepted || !s.Last.At.Equal(start.Add(time.Hour)) || !s.Last.Since.Equal(start) {
		t.Errorf("got %+v, want the release recorded", s)
	}
}
