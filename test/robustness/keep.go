package robustness

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/routesrv/routesrv/test/robustness/history"
	"github.com/routesrv/routesrv/test/robustness/plan"
)

// Names of the files that Keep writes.
const (
	PlanFile    = "plan.json"
	PageFile    = "timeline.html"
	ReasonsFile = "README.txt"
)

// Kept is the information about a failed run.
type Kept struct {
	Plan    *plan.Plan
	History *history.History // nil if the run never began
	Reasons []string         // the first violation first
	// Page renders the page about the run; it may be nil.
	Page func(*history.History) ([]byte, error)
}

// Keep writes a run to its folder, which already has the logs of the processes: the plan, the history, the page, and a file that
// says what failed and how to run it again.
func Keep(folder string, k Kept) error {
	var b strings.Builder
	fmt.Fprintf(&b, "A run with the seed %d failed.\n\n", k.Plan.Seed)
	for i, r := range k.Reasons {
		if i == 50 {
			fmt.Fprintf(&b, "and %d more\n", len(k.Reasons)-i)
			break
		}
		fmt.Fprintln(&b, "-", r)
	}
	plan, err := filepath.Abs(filepath.Join(folder, PlanFile))
	if err != nil {
		return err
	}
	fmt.Fprintf(&b, `
To run the same plan again, as it is, or to make it smaller for as long as it fails:

    go test -race ./test/robustness -run TestGuaranteesHold -v -args -plan %[1]s
    go test -race ./test/robustness -run TestGuaranteesHold -v -timeout 2h -args -plan %[1]s -shrink 30m

The folder has %[2]s (who takes part, which faults strike when), the history (what every client received, in files of
one JSON object a line, and each table in tables/), %[3]s (the same as a page), and a folder for each process with its log.
`, plan, PlanFile, PageFile)
	errs := []error{
		os.WriteFile(filepath.Join(folder, ReasonsFile), []byte(b.String()), 0o600), k.Plan.Save(filepath.Join(folder, PlanFile)),
	}
	if k.History != nil {
		errs = append(errs, k.History.Save(folder))
		if k.Page != nil {
			page, err := k.Page(k.History)
			errs = append(errs, err, os.WriteFile(filepath.Join(folder, PageFile), page, 0o600))
		}
	}
	return errors.Join(errs...)
}
