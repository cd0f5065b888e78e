package robustness

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/test/robustness/history"
	"github.com/routesrv/routesrv/test/robustness/validate"
)

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestEachPieceIsInItsFileOnce: if its piece of source has changed, a plant would no longer be planted.
func TestEachPieceIsInItsFileOnce(t *testing.T) {
	if _, err := Edited(root(t), Plants()); err != nil {
		t.Error(err)
	}
}

func TestAPieceThatIsNotThereIsAnError(t *testing.T) {
	_, err := Edited(root(t), []Plant{{Name: "ghost", Edits: []Edit{{File: "publish/publish.go", Old: "no such piece"}}}})
	if err == nil || !strings.Contains(err.Error(), "plant ghost: publish/publish.go has its piece 0 times") {
		t.Errorf("error %v", err)
	}
	_, err = Edited(root(t), []Plant{{Name: "ghost", Edits: []Edit{{File: "publish/publish.go", Old: "return"}}}})
	if err == nil || !strings.Contains(err.Error(), "want once") {
		t.Errorf("error %v", err)
	}
}

// TestEveryValidatorHasTwoPlants, and every plant has a validator, a scenario and a unique name.
func TestEveryValidatorHasTwoPlants(t *testing.T) {
	count := make(map[string]int)
	for _, p := range Plants() {
		count[p.Validator]++
		if count["name "+p.Name]++; count["name "+p.Name] > 1 {
			t.Errorf("two plants are called %s", p.Name)
		}
		if !slices.ContainsFunc(Scenarios(), func(s Scenario) bool { return s.Name == p.Scenario }) {
			t.Errorf("plant %s: no scenario %q", p.Name, p.Scenario)
		}
		for _, e := range p.Edits {
			if !strings.Contains(e.New, `"`+p.Name+`"`) {
				t.Errorf("plant %s: an edit of %s is not for the plant alone", p.Name, e.File)
			}
		}
	}
	for _, v := range validate.Validators() {
		if count[v.Name] < 2 {
			t.Errorf("%s has %d plants, want two", v.Name, count[v.Name])
		}
	}
}

// TestPlanted: each scenario passes without a plant, and fails with each of its plants, through the validator that the plant
// names.
func TestPlanted(t *testing.T) {
	var binaries Binaries
	var err error
	if binaries.Routesrv, binaries.Dataplane, err = BuildPlanted(t.Context(), root(t), t.TempDir()); err != nil {
		t.Fatal(err)
	}
	running := make(chan struct{}, 6) // concurrent runs: most of the time they wait
	play := func(t *testing.T, s Scenario, plant string) []validate.Violation {
		running <- struct{}{}
		defer func() { <-running }()
		h, err := s.Run(t.Context(), binaries, t.TempDir(), plant)
		if h == nil || plant == "" && err != nil {
			t.Fatal(err)
		}
		if keep := os.Getenv("PLANTS_KEEP"); keep != "" {
			if err := h.Save(filepath.Join(keep, s.Name+"-"+plant)); err != nil {
				t.Error(err)
			}
		}
		applied := 0
		for _, a := range h.Answers {
			if a.Outcome == history.Applied {
				applied++
			}
		}
		t.Logf("%d changes, %d reads, %d answers, %d with a table, %d tables", len(h.Changes), len(h.Reads), len(h.Answers), applied, len(h.Tables))
		return validate.All(h)
	}
	for _, s := range Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			for _, v := range play(t, s, "") {
				t.Errorf("without a plant: %v", v)
			}
		})
		for _, p := range Plants() {
			if p.Scenario != s.Name {
				continue
			}
			t.Run(s.Name+"/"+p.Name, func(t *testing.T) {
				t.Parallel()
				// Some faults show only by chance: on a slow machine a run may be too short for them.
				const runs = 3
				for n := 1; ; n++ {
					found := make(map[string]int)
					for _, v := range play(t, s, p.Name) {
						if found[v.Validator]++; found[v.Validator] == 1 {
							t.Log(v)
						}
					}
					if found[p.Validator] > 0 {
						return
					}
					if n == runs {
						t.Fatalf("%s: %s finds nothing in %d runs; in the last one others find %v", p.What, p.Validator, runs, found)
					}
				}
			})
		}
	}
}
