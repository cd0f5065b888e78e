package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/fleet"
)

// TestReportsChangeNoTable: whoever can reach the route server can report that proxies died of the served table, under any id, as often as it likes.
// The changes of all teams stay served, and the status shows the reports.
func TestReportsChangeNoTable(t *testing.T) {
	f := start(t, service+ingresses("a"), nil)
	f.ready()
	before := f.view("").Table
	filtered := strings.Replace(ingress("b"), "namespace: shop}", `namespace: shop, annotations: {zalando.org/skipper-filter: 'setPath("/new")'}}`, 1)
	f.apply(filtered)
	f.eventually("the change", func() bool { return strings.Contains(f.get("/routes").body, "/new") })
	table := f.get("/routes").body
	served := f.view("").Table
	for i := range 20 {
		report, err := json.Marshal(fleet.Report{Holds: fleet.Name{Digest: before.Digest, Revision: before.Revision}, Rejected: "suspect", Suspects: []fleet.Suspect{
			{Digest: served.Digest, Proven: before.Digest, Deaths: 2, Evidence: "the proxy died 2 times"},
		}})
		if err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("kind=sidecar;pod=ingress/p%d;version=v1;mode=Exec;interval=3000", i)
		if sent := f.ask(http.MethodPost, "/clients", string(report), "Routesrv-Client", name); sent.status != http.StatusNoContent {
			t.Fatalf("report %d: %d %s", i, sent.status, sent.body)
		}
	}
	f.seen("", func(v *fleet.Clients) bool { return len(v.Suspects) == 1 && v.Suspects[0].Clients == 20 })
	for until := time.Now().Add(3 * time.Second); time.Now().Before(until); f.polled() { // nothing shows that nothing happens
		if got := f.get("/routes").body; got != table || f.guard().KeptCount != 0 {
			t.Fatalf("kept %+v, table\n%s", f.guard().Kept, got)
		}
	}
}
