package guard_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/guard"
)

// restarts replaces the guard by that of the next process, which has the served table from a file and the hold as text.
func (r *run) restarts(after time.Duration, cfg guard.Config) {
	r.t.Helper()
	o, held := r.guard.Ongoing()
	r.guard = newGuard(r.t, cfg)
	if r.now = r.now.Add(after); !held {
		return
	}
	text, err := json.Marshal(o)
	if err != nil {
		r.t.Fatal(err)
	}
	var again guard.Ongoing
	if err := json.Unmarshal(text, &again); err != nil {
		r.t.Fatal(err)
	}
	if err := r.guard.Resume(again, r.now); err != nil {
		r.t.Fatal(err)
	}
}

// TestARestartEndsNoHold: every reading of a restore in steps follows a restart, and only the whole one is served.
func TestARestartEndsNoHold(t *testing.T) {
	for name, lost := range map[string]cluster{
		string(guard.Empty):         {},
		string(guard.OnlyGenerated): cluster{{ID: "kube__redirect", Text: "kube__redirect: * -> <shunt>;"}},
		string(guard.RoutesLost):    ingresses("app", 0, 10, alive),
		string(guard.BackendsLost):  ingresses("app", 0, 100, noEndpoints),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, guard.Config{}, nil)
			r.served = ingresses("app", 0, 100, alive).table(t)
			r.wants(r.judge(time.Second, lost.table(t)), guard.Code(name))
			for back := 10; back < 100; back += 15 {
				r.restarts(time.Second, guard.Config{})
				if v, held := r.guard.Held(); !held || v.Reason != guard.Code(name) {
					t.Fatalf("held %v, %+v", held, v)
				}
				next := ingresses("app", 0, back, alive)
				if name == string(guard.BackendsLost) {
					next = append(next, ingresses("app", back, 100, noEndpoints)...)
				}
				r.wants(r.judge(time.Second, next.table(t)), guard.Code(name))
			}
			r.restarts(time.Second, guard.Config{})
			r.wants(r.judge(time.Second, ingresses("app", 0, 100, alive).table(t)), "")
			if _, held := r.guard.Ongoing(); held {
				t.Error("a hold goes on")
			}
		})
	}
}

// TestTheTimeOfAHoldStartsAgainAfterARestart: the file that tells of the hold may be old, and what is lost now is another loss.
func TestTheTimeOfAHoldStartsAgainAfterARestart(t *testing.T) {
	lost := tableOf(t, numbered(0, 10)...)
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
			v = r.judge(guard.DefaultHold/2, tableOf(t, numbered(0, 60)...))
			if r.wants(v, guard.RoutesLost); !v.ReleaseAt.Equal(r.now.Add(guard.DefaultHold)) {
				t.Errorf("half came back at %v, and the hold ends at %v", r.now, v.ReleaseAt)
			}
			r.wants(r.judge(guard.DefaultHold-time.Second, tableOf(t, numbered(0, 60)...)), guard.RoutesLost)
			if v = r.judge(time.Second, tableOf(t, numbered(0, 60)...)); !v.Publish || v.Reason != guard.RoutesLost {
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
	lost := tableOf(t, numbered(0, 10)...)
	r := newRun(t, guard.Config{}, numbered(0, 100))
	r.judge(0, lost)
	r.restarts(time.Second, guard.Config{})
	a := guard.Acceptance{Digest: lost.Digest()}
	if _, err := r.guard.Accept(a, r.now); err != guard.ErrNothingHeld {
		t.Errorf("error %v", err)
	}
	if s := r.guard.State(); s.Held {
		t.Errorf("state %+v", s)
	}
	r.judge(0, lost)
	if got, err := r.guard.Accept(a, r.now); err != nil || got != lost {
		t.Errorf("accepted %v, error %v", got, err)
	}
	r.served = lost
	r.restarts(0, guard.Config{})
	r.wants(r.judge(0, lost), "")
}

func TestWhatNoGuardHasMadeIsNotResumed(t *testing.T) {
	good := guard.Ongoing{Reason: guard.RoutesLost, Since: start, Lost: guard.RoutesLost}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(*guard.Ongoing){
		`reason "" is unknown`:                 func(o *guard.Ongoing) { o.Reason = "" },
		`reason "storm" is unknown`:            func(o *guard.Ongoing) { o.Reason = "storm" },
		"no time at which":                     func(o *guard.Ongoing) { o.Since = time.Time{} },
		`reason "too_large" loses no requests`: func(o *guard.Ongoing) { o.Lost = guard.TooLarge },
	} {
		o := good
		spoil(&o)
		g := newGuard(t, guard.Config{})
		if err := g.Resume(o, start); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
		if _, held := g.Held(); held {
			t.Errorf("%s: a hold was resumed", want)
		}
	}
}
