package publish

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/routesrv/routesrv/guard"
)

// restarts replaces the keeper as a restart does: the next one reads the served table from a file, and what is held from its JSON form.
func (r *run) restarts(after time.Duration, cfg guard.Config) {
	r.t.Helper()
	text, err := json.Marshal(r.guard.list)
	if err != nil {
		r.t.Fatal(err)
	}
	again, err := DecodeKept(text)
	if err != nil {
		r.t.Fatal(err)
	}
	r.guard, r.now = newHeldTables(r.t, cfg), r.now.Add(after)
	r.guard.list = again
}

// TestARestartEndsNoHold: every reading of a restore in steps follows a restart, and only the whole one is served.
func TestARestartEndsNoHold(t *testing.T) {
	for name, lost := range map[string]definitions{
		string(guard.Empty):         {},
		string(guard.OnlyGenerated): definitions{{ID: "kube__redirect", Text: "kube__redirect: * -> <shunt>;"}},
		string(guard.RoutesLost):    ingressRoutes("app", 0, 10, alive),
		string(guard.BackendsLost):  ingressRoutes("app", 0, 100, noEndpoints),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, guard.Config{}, nil)
			r.served = ingressRoutes("app", 0, 100, alive).Table(t)
			r.wants(r.judge(time.Second, lost.Table(t)), guard.Code(name))
			for back := 10; back < 100; back += 15 {
				r.restarts(time.Second, guard.Config{})
				if list := r.guard.list; len(list) == 0 || list.foremost().Reason != guard.Code(name) {
					t.Fatalf("held is %+v", list)
				}
				next := ingressRoutes("app", 0, back, alive)
				if name == string(guard.BackendsLost) {
					next = append(next, ingressRoutes("app", back, 100, noEndpoints)...)
				}
				r.wants(r.judge(time.Second, next.Table(t)), guard.Code(name))
			}
			r.restarts(time.Second, guard.Config{})
			r.wants(r.judge(time.Second, ingressRoutes("app", 0, 100, alive).Table(t)), "")
			if len(r.guard.list) > 0 {
				t.Error("a hold goes on")
			}
		})
	}
}

// TestARestartKeepsTheEndOfAHold: neither a restart nor what comes back moves it.
func TestARestartKeepsTheEndOfAHold(t *testing.T) {
	lost := newTable(t, numbered(0, 10)...)
	r := newRun(t, guard.Config{}, numbered(0, 100))
	v := r.judge(time.Second, lost)
	since, end := r.now, r.now.Add(guard.DefaultHold)
	if r.wants(v, guard.RoutesLost); !v.Since.Equal(since) || !v.ReleaseAt.Equal(end) {
		t.Errorf("held since %v until %v, want since %v until %v", v.Since, v.ReleaseAt, since, end)
	}
	r.restarts(time.Minute, guard.Config{})
	for _, read := range []int{10, 60} { // half came back
		v = r.judge(time.Minute, newTable(t, numbered(0, read)...))
		if r.wants(v, guard.RoutesLost); !v.Since.Equal(since) || !v.ReleaseAt.Equal(end) {
			t.Errorf("held since %v until %v, want since %v until %v", v.Since, v.ReleaseAt, since, end)
		}
	}
	r.restarts(end.Sub(r.now)-time.Second, guard.Config{})
	r.wants(r.judge(0, newTable(t, numbered(0, 60)...)), guard.RoutesLost)
	if v = r.judge(time.Second, newTable(t, numbered(0, 60)...)); !v.publish || v.Reason != guard.RoutesLost {
		t.Errorf("after the time of the hold: %+v", v)
	}
}

// TestAResumedHoldIsAcceptedAfterAJudgement: before, nobody knows which table is held.
func TestAResumedHoldIsAcceptedAfterAJudgement(t *testing.T) {
	lost := newTable(t, numbered(0, 10)...)
	r := newRun(t, guard.Config{}, numbered(0, 100))
	r.judge(0, lost)
	r.restarts(time.Second, guard.Config{})
	a := Acceptance{Digest: lost.Digest()}
	if _, err := r.guard.accept(a); err != ErrNothingHeld {
		t.Errorf("error %v", err)
	}
	if s := r.guard.state(); s.Held {
		t.Errorf("state %+v", s)
	}
	r.judge(0, lost)
	if got, err := r.guard.accept(a); err != nil || got != lost {
		t.Errorf("accepted %v, error %v", got, err)
	}
	r.served = lost
	r.restarts(0, guard.Config{})
	r.wants(r.judge(0, lost), "")
}

func TestWhatNoProcessHasWrittenIsNotResumed(t *testing.T) {
	good := Kept{Ref: tableRef(guard.RoutesLost), Reason: guard.RoutesLost, Since: startTime}
	decode := func(o Kept) error {
		text, err := json.Marshal([]*Kept{&o})
		if err != nil {
			t.Fatal(err)
		}
		_, err = DecodeKept(text)
		return err
	}
	if err := decode(good); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Kept){
		"no reason": func(o *Kept) { o.Reason = "" }, "an unknown reason": func(o *Kept) { o.Reason = "storm" },
		"no beginning": func(o *Kept) { o.Since = time.Time{} }, "another name": func(o *Kept) { o.Name = "some" },
	} {
		o := good
		if spoil(&o); decode(o) == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
