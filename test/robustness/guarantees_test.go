package robustness

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/test/robustness/validate"
)

// TestThePageOfGuaranteesIsTrue: docs/internals/guarantees.md has a section for each validator, in order, with the promise, the limits, and
// the existing plants.
func TestThePageOfGuaranteesIsTrue(t *testing.T) {
	text, err := os.ReadFile("../../docs/internals/guarantees.md")
	if err != nil {
		t.Fatal(err)
	}
	byValidator := make(map[string][]string)
	for _, p := range Plants() {
		byValidator[p.Validator] = append(byValidator[p.Validator], p.Name)
	}
	at := 0
	for _, v := range validate.Validators() {
		from := strings.Index(string(text), "\n## "+v.Name+"\n")
		if from < at {
			t.Errorf("no section %s, or not in its place", v.Name)
			continue
		}
		at = from
		section, _, _ := strings.Cut(string(text)[from+1:], "\n## ")
		for _, part := range []string{"**Promised.** ", "**Not promised.** ", "**Validator.** "} {
			if !strings.Contains(section, "\n"+part) {
				t.Errorf("%s does not say %s", v.Name, part)
			}
		}
		_, named, _ := strings.Cut(section, "\n**Plants.** ")
		named, _, _ = strings.Cut(named, ".")
		got := strings.Split(strings.ReplaceAll(named, "`", ""), ", ")
		if !slices.Equal(got, byValidator[v.Name]) {
			t.Errorf("%s: the page has the plants %q, there are %q", v.Name, got, byValidator[v.Name])
		}
	}
}
