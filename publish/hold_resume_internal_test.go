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
	r.guard, r.now = newHolder(r.t, cfg), r.now.Add(after)
	r.guard.takeOver(again, r.now)
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
				if o := r.guard.list.table(); o == nil || o.Reason != guard.Code(name) {
					t.Fatalf("held is %+v", o)
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

// TestTheTimeOfAHoldStartsAgainAfterARestart: the file that tells of the hold may be old, and what is lost now is another loss.
func TestTheTimeOfAHoldStartsAgainAfterARestart(t *testing.T) {
	lost := newTable(t, numbered(0, 10)...)
	for name, away := range map[string]time.Duration{"soon": time.Minute, "late": time.Hour, "clock set back": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, guard.Config{}, numbered(0, 100))
			r.wants(r.judge(time.Second, lost), guard.RoutesLost)
			since := r.now
			r.restarts(away, guard.Config{})
			if r.now.Before(since) {
				since = r.now
			}
			v, begun := r.judge(time.Second, lost), r.now
			if r.wants(v, guard.RoutesLost); !v.Since.Equal(since) || !v.ReleaseAt.Equal(begun.Add(guard.DefaultHold)) {
				t.Errorf("held since %v until %v, want since %v until %v", v.Since, v.ReleaseAt, since, begun.Add(guard.DefaultHold))
			}
			v = r.judge(guard.DefaultHold/2, newTable(t, numbered(0, 60)...))
			if r.wants(v, guard.RoutesLost); !v.ReleaseAt.Equal(r.now.Add(guard.DefaultHold)) {
				t.Errorf("half came back at %v, and the hold ends at %v", r.now, v.ReleaseAt)
			}
			r.wants(r.judge(guard.DefaultHold-time.Second, newTable(t, numbered(0, 60)...)), guard.RoutesLost)
			if v = r.judge(time.Second, newTable(t, numbered(0, 60)...)); !v.publish || v.Reason != guard.RoutesLost {
				t.Errorf("after the time of the hold: %+v", v)
			}
		})
	}
	r := newRun(t, guard.Config{}, numbered(0, 100))
	r.wants(r.judge(time.Second, lost), guard.RoutesLost)
	r.restarts(time.Hour, guard.Config{Manual: true})
	r.wants(r.judge(0, lost), guard.RoutesLost)
	r.wants(r.judge(time.Hour, lost), guard.RoutesLost)
}

// TestAResumedHoldIsAcceptedAfterAJudgement: before, nobody knows which table is held.
func TestAResumedHoldIsAcceptedAfterAJudgement(t *testing.T) {
	lost := newTable(t, numbered(0, 10)...)
	r := newRun(t, guard.Config{}, numbered(0, 100))
	r.judge(0, lost)
	r.restarts(time.Second, guard.Config{})
	a := Acceptance{Digest: lost.Digest()}
	if _, err := r.guard.accept(a, r.now); err != ErrNothingHeld {
		t.Errorf("error %v", err)
	}
	if s := r.guard.state(); s.Held {
		t.Errorf("state %+v", s)
	}
	r.judge(0, lost)
	if got, err := r.guard.accept(a, r.now); err != nil || got != lost {
		t.Errorf("accepted %v, error %v", got, err)
	}
	r.served = lost
	r.restarts(0, guard.Config{})
	r.wants(r.judge(0, lost), "")
}

func TestWhatNoProcessHasWrittenIsNotResumed(t *testing.T) {
	good := Kept{Ref: tableRef, Reason: guard.RoutesLost, Since: startTime, From: startTime, Reasons: []guard.Code{guard.RoutesLost}}
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
		"no beginning": func(o *Kept) { o.Since = time.Time{} }, "no kinds": func(o *Kept) { o.Reasons = nil }, "another name": func(o *Kept) { o.Name = "some" },
	} {
		o := good
		if spoil(&o); decode(o) == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
