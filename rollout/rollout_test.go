package rollout_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/quick"

	"github.com/routesrv/routesrv/rollout"
)

func TestSettingIsReadInEveryForm(t *testing.T) {
	exec := func(percent int, override bool) rollout.Setting {
		return rollout.Setting{Mode: rollout.Exec, Percent: percent, Override: override}
	}
	for text, want := range map[string]rollout.Setting{
		"False": {}, "false": {}, " FALSE\n": {}, "Pre": {Mode: rollout.Pre}, "pRE": {Mode: rollout.Pre},
		"Exec": exec(100, false), "exec\n": exec(100, false), "Exec:25%": exec(25, false), "EXEC:0%": exec(0, false),
		"Exec:100%": exec(100, false), "Exec!": exec(100, true), "exec:5%!": exec(5, true),
		"Exec:1":     {Mode: rollout.Exec, Count: 1},
		"exec:25!\n": {Mode: rollout.Exec, Count: 25, Override: true},
		"Exec:0":     exec(0, false),
	} {
		got, err := rollout.ParseSetting(text)
		if err != nil || got != want {
			t.Errorf("ParseSetting(%q) = %+v, %v, want %+v", text, got, err, want)
		}
	}
}

func TestSettingThatIsWrongSaysWhatIsRight(t *testing.T) {
	for _, text := range []string{
		"", "true", "Execute", "Exec:", "Exec:70000", "Exec:101%", "Exec:-1%", "Exec:1.5%", "Exec:25%%", "Exec: 25%", "Exec :25%",
		"Exec:-1", "Exec:1.5", "Exec:a", "Exec: 1", "Exec:1,2", "Pre:1", "Pre:25%", "False!", "Pre!", "Exec!!", "Exec!:25%", strings.Repeat("x", 1000),
	} {
		got, err := rollout.ParseSetting(text)
		if err == nil {
			t.Errorf("ParseSetting(%q) = %v, want an error", text, got)
			continue
		}
		if got != (rollout.Setting{}) && got.Mode == rollout.Exec {
			t.Errorf("ParseSetting(%q) gives Exec beside its error", text)
		}
		if !strings.Contains(err.Error(), "must be") || len(err.Error()) > 300 {
			t.Errorf("ParseSetting(%q): %v: want what is right, in short", text, err)
		}
	}
}

// /status and metrics spell modes as operators write them.
func TestModesAreShownAsTheyAreRead(t *testing.T) {
	for i, want := range []string{"False", "Pre", "Exec"} {
		m := rollout.Modes()[i]
		got, err := json.Marshal(map[string]any{"mode": m, "setting": rollout.Setting{Mode: m, Percent: 25, Override: true}})
		text := want
		if m == rollout.Exec {
			text = "Exec:25%!"
		}
		if err != nil || string(got) != `{"mode":"`+want+`","setting":"`+text+`"}` {
			t.Errorf("%v: %s, %v", m, got, err)
		}
	}
	if n := len(rollout.Modes()); n != 3 {
		t.Errorf("%d modes, want 3", n)
	}
	if got := rollout.Mode(3).String(); got != "Mode(3)" {
		t.Errorf("an unknown mode is %q", got)
	}
}

// The message names what was read, and is short enough for a log line.
func TestWhatIsWrongIsQuoted(t *testing.T) {
	for text, want := range map[string]string{
		"Exectutive": `mode "Exectutive": must be`, "Exec:101%": `share "101%": must be`,
		strings.Repeat("x", 40): `mode "` + strings.Repeat("x", 40) + `": must be`, strings.Repeat("x", 41): `mode "` + strings.Repeat("x", 40) + `": must be`,
	} {
		if _, err := rollout.ParseSetting(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.50q: %v, want %s", text, err, want)
		}
	}
}

func TestShareIsThatOfTheFleet(t *testing.T) {
	const pods = 10_000
	for percent := 0; percent <= 100; percent += 5 {
		in := 0
		for i := range pods {
			if (rollout.Setting{Mode: rollout.Exec, Percent: percent}).For(podName(i), -1) == rollout.Exec {
				in++
			}
		}
		want := float64(pods*percent) / 100
		// Five standard deviations of a binomial distribution; none at both ends.
		p := float64(percent) / 100
		if tolerance := 5 * math.Sqrt(pods*p*(1-p)); math.Abs(float64(in)-want) > tolerance {
			t.Errorf("%d %%: %d of %d pods, want %.0f ± %.0f", percent, in, pods, want, tolerance)
		}
	}
}

func TestRaisingTheShareOnlyAddsPods(t *testing.T) {
	property := func(pod string, a, b uint8) bool {
		lower, higher := int(min(a, b))%101, int(max(a, b))%101
		if lower > higher {
			lower, higher = higher, lower
		}
		of := func(percent int) rollout.Mode {
			return rollout.Setting{Mode: rollout.Exec, Percent: percent}.For(pod, -1)
		}
		return of(0) == rollout.Pre && of(100) == rollout.Exec && (of(lower) != rollout.Exec || of(higher) == rollout.Exec)
	}
	if err := quick.Check(property, &quick.Config{MaxCount: 20_000}); err != nil {
		t.Error(err)
	}
}

func TestShareOfAPodNeverChanges(t *testing.T) {
	// Fixed values: another hash would move pods of running fleets from one mode to the other with an upgrade.
	var in []string
	for i := range 20 {
		if (rollout.Setting{Mode: rollout.Exec, Percent: 25}).For(podName(i), -1) == rollout.Exec {
			in = append(in, fmt.Sprint(i))
		}
	}
	if got, want := strings.Join(in, " "), "4 6 10 12 14"; got != want {
		t.Errorf("a quarter of 20 pods: %s, want %s", got, want)
	}
}

func FuzzParseSetting(f *testing.F) {
	for _, s := range []string{"False", "pre", "EXEC", "Exec:25%", "Exec!", "exec:0%!", "Exec:100%", "Exec:256%", "Exec:1", "\n", "Exec\x00"} {
		f.Add(s, "skipper-ingress-abcde")
	}
	f.Fuzz(func(t *testing.T, s, pod string) {
		set, err := rollout.ParseSetting(s)
		if err != nil {
			if set != (rollout.Setting{}) {
				t.Errorf("ParseSetting(%q) gives %v beside an error", s, set)
			}
			return
		}
		again, err := rollout.ParseSetting(set.String())
		if err != nil || again != set {
			t.Errorf("ParseSetting(%q) = %+v, printed %q, read back %+v, %v", s, set, set, again, err)
		}
		if set.Percent < 0 || set.Percent > 100 || set.Mode != rollout.Exec && (set.Override || set.Percent != 0) {
			t.Errorf("ParseSetting(%q) = %+v", s, set)
		}
		if m := set.For(pod, 0); m != set.Mode && !(set.Mode == rollout.Exec && m == rollout.Pre) {
			t.Errorf("%v for %q is %v", set, pod, m)
		}
		if m, err := rollout.ParseMode(s); err == nil && m != set.Mode {
			t.Errorf("ParseMode(%q) = %v, ParseSetting has %v", s, m, set.Mode)
		}
	})
}

// podName is a name as a Deployment makes them.
func podName(i int) string { return fmt.Sprintf("skipper-ingress-7d4b9c6f5d-%05x", i) }
