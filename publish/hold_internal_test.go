package publish

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/internal/routeid"
	"github.com/routesrv/routesrv/table"
)

// step is one judgement of a history: what was read when, and the expected outcome.
type step struct {
	at      time.Duration
	read    []string
	publish bool
	reason  guard.Code
}

// play judges a history. A published table is served from then on.
func play(t *testing.T, g *heldTables, served []string, steps []step) {
	t.Helper()
	cur := newTable(t, served...)
	for i, s := range steps {
		candidate := newTable(t, s.read...)
		got := g.offer(cur, candidate, startTime.Add(s.at))
		if got.publish != s.publish || got.Reason != s.reason {
			t.Fatalf("step %d at %v: got publish %v, reason %q; want %v, %q", i, s.at, got.publish, got.Reason, s.publish, s.reason)
		}
		if got.publish {
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
		{"needs no read in between", []step{
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
		{"never releases what follows only generated routes, before all is back", []step{
			{0, few, false, guard.RoutesLost},
			{30 * time.Second, none, false, guard.OnlyGenerated},
			{hold, none, false, guard.OnlyGenerated},
			{90 * time.Second, few, false, guard.OnlyGenerated},
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
			play(t, newHeldTables(t, guard.Config{Hold: hold}), full, test.steps)
		})
	}
}

func TestLossOfRoutesAndOfHostsAreOneKind(t *testing.T) {
	g := newHeldTables(t, guard.Config{Hold: time.Minute})
	served := []string{"a@h1", "b@h2", "c@h3", "d@h4", "e", "f", "g"}
	play(t, g, served, []step{
		{0, []string{"a@h1", "e", "f", "g"}, false, guard.HostsLost},
		{time.Minute, []string{"a@h1"}, true, guard.HostsLost},
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
			g := newHeldTables(t, guard.Config{Manual: true, Hold: time.Second})
			play(t, g, numbered(0, 10), test.steps)
		})
	}
	t.Run("says so", func(t *testing.T) {
		g := newHeldTables(t, guard.Config{Manual: true})
		few := newTable(t, "a")
		if v := g.offer(newTable(t, "a", "b", "c"), few, startTime); v.publish || !v.ReleaseAt.IsZero() || !v.Since.Equal(startTime) {
			t.Errorf("got %+v, want a hold without an end", v)
		}
		if _, err := g.accept(Acceptance{Digest: few.Digest()}); err != nil {
			t.Errorf("accept: %v", err)
		}
	})
}

// TestHoldAsLongAsTheWindow: a loss in steps is released as such a loss, and does not end as if there had been none.
func TestHoldAsLongAsTheWindow(t *testing.T) {
	g := newHeldTables(t, guard.Config{})
	play(t, g, numbered(0, 10), []step{
		{0, numbered(0, 6), true, ""},
		{time.Minute, numbered(0, 4), false, guard.RoutesLost},
		{time.Minute + guard.DefaultHold - 1, numbered(0, 4), false, guard.RoutesLost},
		{time.Minute + guard.DefaultHold, numbered(0, 4), true, guard.RoutesLost},
	})
}

func TestVerdictSaysWhenItCanBeReleased(t *testing.T) {
	g := newHeldTables(t, guard.Config{Hold: time.Hour})
	full := newTable(t, "a", "b", "c")
	v := g.offer(full, newTable(t, "a"), startTime)
	if !v.Since.Equal(startTime) || !v.ReleaseAt.Equal(startTime.Add(time.Hour)) {
		t.Errorf("got %+v, want a hold from %v for an hour", v, startTime)
	}
	for i, routes := range [][]string{{}, {"kube__redirect"}} {
		at := startTime.Add(time.Duration(i+1) * time.Minute)
		v = g.offer(full, newTable(t, routes...), at)
		if !v.Since.Equal(startTime) || !v.ReleaseAt.IsZero() {
			t.Errorf("%v: got %+v, want no release by time", routes, v)
		}
	}
}

func TestAccept(t *testing.T) {
	full, few := newTable(t, "a", "b", "c"), newTable(t, "a")
	t.Run("releases what is held", func(t *testing.T) {
		g := newHeldTables(t, guard.Config{})
		g.offer(full, few, startTime)
		got, err := g.accept(Acceptance{Digest: few.Digest(), By: "ann", Why: "moved"})
		if err != nil || got != few {
			t.Fatalf("got %v, %v; want the held table", got, err)
		}
		s := g.state()
		want := api.Release{Accepted: true, Digest: few.Digest().String(), Reason: guard.RoutesLost, By: "ann", Why: "moved"}
		if s.Held || s.Last == nil || s.Last.At.IsZero() {
			t.Fatalf("state %+v, last release %+v; want nothing held and %+v", s, s.Last, want)
		}
		if want.At = s.Last.At; *s.Last != want {
			t.Errorf("last release %+v, want %+v", s.Last, want)
		}
	})
	t.Run("lets the next read of the same content pass", func(t *testing.T) {
		g := newHeldTables(t, guard.Config{})
		g.offer(full, few, startTime)
		if _, err := g.accept(Acceptance{Digest: few.Digest()}); err != nil {
			t.Fatal(err)
		}
		if v := g.offer(full, few, startTime.Add(time.Second)); !v.publish {
			t.Errorf("got %+v, want publish", v)
		}
	})
	t.Run("is not for content that comes later", func(t *testing.T) {
		g := newHeldTables(t, guard.Config{})
		g.offer(full, few, startTime)
		if _, err := g.accept(Acceptance{Digest: few.Digest()}); err != nil {
			t.Fatal(err)
		}
		if v := g.offer(full, newTable(t, "b"), startTime.Add(time.Second)); v.publish {
			t.Errorf("got %+v, want the other table held", v)
		}
		if v := g.offer(full, few, startTime.Add(2*time.Second)); v.publish {
			t.Errorf("got %+v, want an acceptance to be used up", v)
		}
	})
	t.Run("releases an empty table", func(t *testing.T) {
		g := newHeldTables(t, guard.Config{})
		empty := newTable(t)
		g.offer(full, empty, startTime)
		if got, err := g.accept(Acceptance{Digest: empty.Digest()}); err != nil || got != empty {
			t.Errorf("got %v, %v; want the empty table", got, err)
		}
	})
	t.Run("refuses another digest", func(t *testing.T) {
		g := newHeldTables(t, guard.Config{})
		g.offer(full, few, startTime)
		_, err := g.accept(Acceptance{Digest: full.Digest()})
		refuses(t, g, err, ErrNotHeld, few, "another table is held: "+few.Digest().String())
	})
	t.Run("refuses no digest", func(t *testing.T) {
		g := newHeldTables(t, guard.Config{})
		g.offer(full, few, startTime)
		_, err := g.accept(Acceptance{By: "ann", Why: "all of it"})
		refuses(t, g, err, ErrNoDigest, few, "say which table you accept, by its digest; held is "+few.Digest().String())
	})
	t.Run("refuses when nothing is held", func(t *testing.T) {
		g := newHeldTables(t, guard.Config{})
		if _, err := g.accept(Acceptance{}); !errors.Is(err, ErrNothingHeld) {
			t.Errorf("got %v, want ErrNothingHeld", err)
		}
	})
}

// refuses checks a refused acceptance: the error, the description of what is held, and that the hold continues.
func refuses(t *testing.T, g *heldTables, err, want error, held *table.Table, text string) {
	t.Helper()
	refused, ok := errors.AsType[*HeldError](err)
	if !errors.Is(err, want) || !ok || refused.Digest != held.Digest() || refused.Reason != guard.RoutesLost || err.Error() != text {
		t.Errorf("got %v, want %q with the held table", err, text)
	}
	if !g.state().Held {
		t.Error("the hold ended")
	}
}

func TestStateSaysWhatIsHeld(t *testing.T) {
	g := newHeldTables(t, guard.Config{})
	if s := g.state(); !reflect.DeepEqual(s, Holding{}) {
		t.Errorf("got %+v, want nothing", s)
	}
	full, few := newTable(t, "a", "b", "c"), newTable(t, "a")
	g.offer(full, few, startTime)
	v := g.offer(full, few, startTime.Add(time.Second))
	s := g.state()
	want := Holding{Guard: api.Guard{Held: true, Reason: v.Reason, Detail: v.Detail, Since: v.Since, ReleaseAt: v.ReleaseAt, Digest: few.Digest(), Revision: 1, Routes: 1}}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("got %+v, want %+v", s, want)
	}
	g.offer(full, few, startTime.Add(time.Hour))
	s = g.state()
	if s.Held || s.Last == nil || s.Last.Accepted || s.Last.Digest != few.Digest().String() {
		t.Errorf("got %+v, want the release recorded", s)
	}
}

func TestReleaseBeginsANewWindow(t *testing.T) {
	for _, release := range []string{"time", "accept", "accept during a read"} {
		t.Run(release, func(t *testing.T) {
			r := newRun(t, guard.Config{}, numbered(0, 2764))
			r.wants(r.read(time.Second, numbered(0, 1400)...), "")
			few := newTable(t, numbered(0, 760)...)
			r.wants(r.judge(time.Second, few), guard.RoutesLost)
			switch release {
			case "time":
				if v := r.judge(guard.DefaultHold, few); !v.publish {
					t.Fatalf("got %+v, want a release", v)
				}
			default:
				held, err := r.guard.accept(Acceptance{Digest: few.Digest()})
				if err != nil {
					t.Fatal(err)
				}
				if release == "accept" {
					r.served = held
				}
				r.wants(r.judge(time.Second, few), "")
			}
			r.wants(r.read(time.Second, numbered(0, 759)...), "")
			r.wants(r.read(time.Second, numbered(0, 400)...), "")
			r.wants(r.read(time.Second, numbered(0, 300)...), guard.RoutesLost)
		})
	}
}

func TestBackendsLostAreReleasedByTime(t *testing.T) {
	r := newRun(t, guard.Config{}, nil)
	r.served = backed(t, 100, 0, noEndpoints)
	gone := backed(t, 100, 100, noEndpoints)
	r.wants(r.judge(0, gone), guard.BackendsLost)
	r.wants(r.judge(guard.DefaultHold-1, gone), guard.BackendsLost)
	if v := r.judge(1, gone); !v.publish || v.Reason != guard.BackendsLost {
		t.Errorf("got %+v, want a release", v)
	}
	r.wants(r.judge(time.Second, backed(t, 100, 99, noEndpoints)), "")
}

// TestARestoreIsNotPublishedInParts: what is deleted and applied again in steps of one percent is published when all of it is back,
// whatever reason the hold began with.
func TestARestoreIsNotPublishedInParts(t *testing.T) {
	const size = 100
	full := ingressRoutes("app", 0, size, alive)
	generated := definitions{{ID: "kube__redirect", Text: `kube__redirect: Path("/") -> <shunt>;`}}
	for name, begin := range map[string]definitions{"empty": nil, "only generated": generated, "a tenth is left": append(full[:4*size/10:4*size/10], generated...)} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, guard.Config{}, nil)
			r.served = join(full, generated).Table(t)
			first := r.judge(time.Second, begin.Table(t))
			if first.publish {
				t.Fatalf("%+v", first)
			}
			for back := size / 10; back < size; back++ {
				v := r.judge(5*time.Second, join(full[:4*back], generated).Table(t))
				if v.publish || v.Reason != first.Reason {
					t.Fatalf("%d of %d are back: %+v", back, size, v)
				}
				if never := first.ReleaseAt.IsZero(); never != v.ReleaseAt.IsZero() && back < size*95/100 {
					t.Fatalf("%d of %d are back: released at %v, the hold began with %v", back, size, v.ReleaseAt, first.ReleaseAt)
				}
			}
			r.wants(r.judge(time.Second, join(full, generated).Table(t)), "")
		})
	}
}

// TestWhatAnObjectNoLongerWantsNeedNotComeBack: an object came back in another version, under another path.
func TestWhatAnObjectNoLongerWantsNeedNotComeBack(t *testing.T) {
	full := ingressRoutes("app", 0, 100, alive)
	custom := routeid.Custom("shop", "app-1", "old-api", 0, "app-1.example.org", "/old")
	full.Add(custom, "app-1[.]example[.]org", `PathSubtree("/old")`, alive)
	for name, test := range map[string]struct {
		without []int // routes that do not come back
		want    guard.Code
	}{
		"a path of an object that exists": {[]int{1, 2}, ""},
		"an object":                       {[]int{0, 1, 2, 3}, guard.RoutesLost},
		"a custom route":                  {[]int{len(full) - 1}, ""},
		"a catch-all":                     {[]int{3}, ""},
	} {
		r := newRun(t, guard.Config{}, nil)
		r.served = full.Table(t)
		r.wants(r.judge(time.Second, full[:40].Table(t)), guard.RoutesLost)
		back := slices.Clone(full)
		for _, i := range slices.Backward(test.without) {
			back = slices.Delete(back, i, i+1)
		}
		if v := r.judge(time.Second, back.Table(t)); v.Reason != test.want {
			t.Errorf("%s: %+v, want %q", name, v, test.want)
		}
	}
}

// TestEndpointsComeBackTogether: services that are restarted one after another are not published half way.
func TestEndpointsComeBackTogether(t *testing.T) {
	r := newRun(t, guard.Config{}, nil)
	r.served = ingressRoutes("app", 0, 100, alive).Table(t)
	for back := 10; back < 100; back++ {
		v := r.judge(time.Second, join(ingressRoutes("app", 0, back, alive), ingressRoutes("app", back, 100, noEndpoints)).Table(t))
		r.wants(v, guard.BackendsLost)
	}
	r.wants(r.judge(time.Second, ingressRoutes("app", 0, 100, alive).Table(t)), "")
}

// TestAReasonThatAlternatesIsReleased: every 7 s the hold has another reason, and a hold takes 12 s.
func TestAReasonThatAlternatesIsReleased(t *testing.T) {
	full := ingressRoutes("app", 0, 100, alive)
	few := full[:120]
	drained := join(ingressRoutes("app", 0, 30, alive), ingressRoutes("app", 30, 100, noEndpoints))
	within := full[:240]
	for name, reads := range map[string][2]definitions{
		"routes and endpoints": {few, drained}, "endpoints and routes": {drained, few}, "more and less": {few, within}, "two sizes": {full[:100], full[:180]},
	} {
		r := newRun(t, guard.Config{Hold: 12 * time.Second}, nil)
		r.served = full.Table(t)
		released := time.Duration(0)
		for s := time.Duration(0); s < 30 && released == 0; s++ {
			if v := r.judge(time.Second, reads[s/7%2].Table(t)); v.publish {
				released = s * time.Second
			}
		}
		if released < 12*time.Second || released > 20*time.Second {
			t.Errorf("%s: released after %v", name, released)
		}
	}
}

// The default in the documentation.
func TestAHoldLastsTenMinutes(t *testing.T) {
	for at, publish := range map[time.Duration]bool{10*time.Minute - 1: false, 10 * time.Minute: true} {
		r := newRun(t, guard.Config{}, numbered(0, 10))
		r.read(0, numbered(0, 4)...)
		if v := r.read(at, numbered(0, 4)...); v.publish != publish {
			t.Errorf("after %v: %+v", at, v)
		}
	}
}

// A hold during which nothing changes is one entry: the state is not written again for each read.
func TestAHoldThatGoesOnIsOneEntry(t *testing.T) {
	g := newHeldTables(t, guard.Config{})
	full, few := newTable(t, "a", "b", "c"), newTable(t, "a")
	g.offer(full, few, startTime)
	was := g.list[0]
	for i := range 3 {
		g.offer(full, few, startTime.Add(time.Duration(i+2)*time.Second))
	}
	if g.list[0] != was {
		t.Errorf("the entry is %+v, and was %+v", g.list[0], was)
	}
}
