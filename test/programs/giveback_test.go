package programs_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/table"
	"github.com/routesrv/routesrv/test/scale"
)

// TestMemoryOfAModeThatWasLeftIsGivenBack: a data plane in False holds the objects of the cluster. In Exec it does not need them, and
// returns their memory to the operating system.
func TestMemoryOfAModeThatWasLeftIsGivenBack(t *testing.T) {
	cluster := scale.New(0.3)
	compiler, err := compile.New(rules.Options{EndpointSlices: true})
	if err != nil {
		t.Fatal(err)
	}
	api := httptest.NewServer(cluster.Handler())
	defer api.Close()
	tab := table.Of(compiler.Compile(cluster.Snapshot()).Routes, 1<<40, time.Now())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answerWith(w, tab) }))
	defer server.Close()
	mode := filepath.Join(t.TempDir(), "mode")
	if err := os.WriteFile(mode, []byte("False"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startProcess(t, "--mode-file="+mode, "--upstream="+server.URL, "--update-mode=poll", "-source-poll-timeout=50",
		"--kubernetes", "--kubernetes-url="+api.URL, "--enable-kubernetes-endpointslices", "--source-poll-timeout=3000", "--cutover-check=off")
	p.until("table in False", func() bool { s := p.status(); return s.Ready && s.Origin == "self" })
	before := p.resident()
	if err := os.WriteFile(mode, []byte("Exec"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.until("table in Exec", func() bool { return p.status().Origin == "routeserver" })
	begin := time.Now()
	p.until("two fifths of the memory back", func() bool { return p.resident() < before*3/5 })
	t.Logf("%.0f MiB in False, %.0f MiB in Exec after %v", mib(before), mib(p.resident()), time.Since(begin).Truncate(time.Millisecond))
	if d := time.Since(begin); d > time.Minute { // the runtime forces a collection only after two
		t.Errorf("it took %v", d)
	}
}
