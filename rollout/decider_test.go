package rollout_test

import (
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/rollout"
)

var (
	both  = rollout.Able{Compute: true, Fetch: true}
	clean = rollout.Evidence{Comparisons: 100, CleanFor: 15 * time.Minute}
)

func enforced() rollout.CutoverConfig {
	return rollout.CutoverConfig{Policy: rollout.CutoverEnforce, CleanFor: rollout.DefaultCleanFor, MinComparisons: rollout.DefaultMinComparisons}
}

func setting(t *testing.T, s string) rollout.Setting {
	t.Helper()
	set, err := rollout.ParseSetting(s)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func decider(t *testing.T, check rollout.CutoverConfig, able rollout.Able, start string) *rollout.Decider {
	t.Helper()
	d, err := rollout.NewDecider("pod", check, able, setting(t, start))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestCutoverCheckWantsTimeAndComparisons(t *testing.T) {
	for name, c := range map[string]struct {
		evidence rollout.Evidence
		reason   string // a part of it; empty means ready
	}{
		"nothing compared":   {rollout.Evidence{}, "no comparison"},
		"too few":            {rollout.Evidence{Comparisons: 99, CleanFor: time.Hour}, "99 of 100 clean comparisons"},
		"too short":          {rollout.Evidence{Comparisons: 1000, CleanFor: 15*time.Minute - 1}, "14m59s"},
		"differences":        {rollout.Evidence{Comparisons: 1000, CleanFor: time.Hour, Differences: 3}, "3 routes"},
		"one difference":     {rollout.Evidence{Comparisons: 1000, CleanFor: time.Hour, Differences: 1}, "1 routes"},
		"just enough":        {rollout.Evidence{Comparisons: 100, CleanFor: 15 * time.Minute}, ""},
		"cannot be compared": {rollout.Evidence{Comparisons: 1000, CleanFor: time.Hour, Trouble: "no answer"}, "no answer"},
		"clean":              {clean, ""},
	} {
		got := enforced().Judge(c.evidence)
		if got.Ready != (c.reason == "") || !strings.Contains(got.Reason, c.reason) || got.Ready != (got.Reason == "") {
			t.Errorf("%s: got %+v, want a reason with %q", name, got, c.reason)
		}
	}
}

func TestSwitchToExecIsRefusedUntilTheCutoverCheckIsReady(t *testing.T) {
	d := decider(t, enforced(), both, "Pre")
	d.Set(setting(t, "Exec"))
	got := d.Decide(rollout.Evidence{Comparisons: 3, CleanFor: time.Hour}, -1)
	if got.Mode != rollout.Pre || got.Asked != rollout.Exec {
		t.Errorf("got %+v, want Pre in force and Exec asked for", got)
	}
	for _, part := range []string{"3 of 100 clean comparisons", `"Exec!"`} {
		if !strings.Contains(got.Refused, part) {
			t.Errorf("refusal %q, want %q in it", got.Refused, part)
		}
	}
	if got := d.Decide(clean, -1); got.Mode != rollout.Exec || got.Refused != "" {
		t.Errorf("with a cutover check that is ready: got %+v, want Exec", got)
	}
	if got := d.Decide(rollout.Evidence{Differences: 1}, -1); got.Mode != rollout.Exec {
		t.Errorf("after the switch: got %+v, want Exec to stay", got)
	}
}

func TestGateLetsPass(t *testing.T) {
	report, off := enforced(), enforced()
	report.Policy, off.Policy = rollout.CutoverReport, rollout.CutoverOff
	for name, c := range map[string]struct {
		check    rollout.CutoverConfig
		from, to string
		want     rollout.Mode
	}{
		"override":              {enforced(), "Pre", "Exec!", rollout.Exec},
		"override with a share": {enforced(), "Pre", "Exec:100%!", rollout.Exec},
		"report":                {report, "Pre", "Exec", rollout.Exec},
		"off":                   {off, "Pre", "Exec", rollout.Exec},
		"the way back":          {enforced(), "Exec", "Pre", rollout.Pre},
		"all the way back":      {enforced(), "Exec", "False", rollout.False},
		"share of nobody":       {enforced(), "Exec", "Exec:0%", rollout.Pre},
		"a start in Exec":       {enforced(), "Exec", "Exec", rollout.Exec},
		"forward to Pre":        {enforced(), "False", "Pre", rollout.Pre},
		"past Pre":              {enforced(), "False", "Exec", rollout.False},
		"a larger share":        {enforced(), "Exec:0%", "Exec:100%", rollout.Pre},
	} {
		d := decider(t, c.check, both, c.from)
		d.Set(setting(t, c.to))
		got := d.Decide(rollout.Evidence{}, -1)
		if got.Mode != c.want || (got.Refused != "") != (got.Mode != got.Asked) {
			t.Errorf("%s: from %s to %s: got %+v, want %v", name, c.from, c.to, got, c.want)
		}
	}
}

func TestModeThatIsNotConfiguredIsRefused(t *testing.T) {
	fetch, compute := rollout.Able{Fetch: true}, rollout.Able{Compute: true}
	for start, able := range map[string]rollout.Able{"False": fetch, "Pre": fetch, "Exec": compute, "Exec:0%": compute} {
		if _, err := rollout.NewDecider("pod", enforced(), able, setting(t, start)); err == nil || !strings.Contains(err.Error(), "set ") {
			t.Errorf("start with %s and %+v: got %v, want what to set", start, able, err)
		}
	}
	d := decider(t, enforced(), fetch, "Exec")
	d.Set(setting(t, "Pre"))
	if got := d.Decide(clean, -1); got.Mode != rollout.Exec || !strings.Contains(got.Refused, "-kubernetes") {
		t.Errorf("Pre without a source: got %+v, want a refusal with -kubernetes", got)
	}
	d = decider(t, enforced(), compute, "False")
	d.Set(setting(t, "Exec!"))
	if got := d.Decide(clean, -1); got.Mode != rollout.False || !strings.Contains(got.Refused, "--upstream") {
		t.Errorf("Exec without a route server: got %+v, want a refusal with --upstream", got)
	}
}
