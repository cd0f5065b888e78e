package publish_test

import (
	"os"
	"testing"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

func TestTheLastDecisionsAreShown(t *testing.T) {
	var d publish.Decisions
	for i := range publish.ShownDecisions + 3 {
		d.Append(api.Decision{What: api.DecidedHeld, Digest: table.Digest{byte(i)}})
	}
	last := d.Last()
	if len(last) != publish.ShownDecisions || last[0].Digest[0] != publish.ShownDecisions+2 || last[len(last)-1].Digest[0] != 3 {
		t.Errorf("%d decisions, from %v to %v", len(last), last[0], last[len(last)-1])
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
