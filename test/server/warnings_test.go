package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/cli"
	"github.com/routesrv/routesrv/app/options"
	"github.com/routesrv/routesrv/app/program"
)

// besides are the places of commands for one server: its support listener and its control socket.
type besides struct {
	f *fixture
	// slow delays commands until their time limit is over, once more than a number of them were carried out; nil delays none.
	slow   func(n int32) bool
	posted atomic.Int32
}

func (*besides) Define(*options.Flags) {}
func (*besides) Args() string          { return "" }
func (*besides) Close()                {}
func (b *besides) Clusters(args []string) ([]cli.Cluster, []string, error) {
	r := cli.Replica{Name: "a", Support: &cli.Listener{URL: "http://" + b.f.support, Transport: b.f.client.Transport}}
	r.Post = func(ctx context.Context, path string, form url.Values) ([]byte, error) {
		if form.Get("dry") == "" && b.slow != nil && b.slow(b.posted.Add(1)) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		sent := b.f.control(http.MethodPost, path+"?"+form.Encode())
		if sent.status != http.StatusOK {
			return nil, errors.New(sent.body)
		}
		return []byte(sent.body), nil
	}
	return []cli.Cluster{{Find: func(context.Context) ([]cli.Replica, error) { return []cli.Replica{r}, nil }}}, args, nil
}

// command runs a command and returns its exit status and what it prints.
func (b *besides) command(args ...string) (int, string) {
	b.f.t.Helper()
	var out bytes.Buffer
	p := cli.Program{Name: "kubectl routesrv", Places: func() cli.Places { return b }, Remote: true}
	status := p.Run(b.f.t.Context(), args, program.Stdio{In: strings.NewReader(""), Out: &out, Err: &out})
	return status, out.String()
}

// warnings returns the warnings of a kind in the status.
func (f *fixture) warnings(what string) (found *api.Warning) {
	f.t.Helper()
	var s api.Status
	if err := json.Unmarshal([]byte(f.request(http.MethodGet, f.support, api.PathStatus).body), &s); err != nil {
		f.t.Fatal(err)
	}
	for _, w := range s.Warnings {
		if w.What == what {
			found = &w
		}
	}
	return found
}

// TestPublishedLossIsAWarning: hosts that were lost below the limit of the guard are served as lost, and every view says so, with the command that
// brings them back.
func TestPublishedLossIsAWarning(t *testing.T) {
	f := startReading(t, backend("s", "10.2.0.1")+ingresses(shops(40)...), true, nil)
	f.polled()
	b := &besides{f: f}
	if status, said := b.command("status"); status != 0 {
		t.Fatalf("before: status %d\n%s", status, said)
	}
	f.delete(shops(40)[:10]...)
	f.eventually("the warning", func() bool {
		return f.warnings(api.WarnLost) != nil && !strings.Contains(f.warnings(api.WarnLost).Text, "change: unknown")
	})
	w := f.warnings(api.WarnLost)
	for _, want := range []string{"25 % of hosts lost since " + w.Since.Format("15:04") + ", published (10 of 40)", "last change: Ingress shop/", "deleted by unknown"} {
		if !strings.Contains(w.Text, want) {
			t.Errorf("the warning is %q, want %q", w.Text, want)
		}
	}
	status, said := b.command("status")
	if status != 1 || !strings.Contains(said, "25 % of hosts lost") || !strings.Contains(said, "kubectl routesrv rollback --to ") || strings.Contains(said, " healthy ") {
		t.Errorf("status %d\n%s", status, said)
	}
	if !strings.Contains(f.metrics(), "\nroutesrv_lost_hosts_ratio 0.25\n") {
		t.Error("the metric does not say a quarter")
	}
	if page := f.request(http.MethodGet, f.support, "/").body; !strings.Contains(page, `id="warnings"`) || !strings.Contains(page, `class="tile notice" href="#warnings"`) {
		t.Error("the console has no warning")
	}

	args := strings.Fields(strings.Replace(w.Command, "--why REASON", "--why=accident --yes", 1))
	if status, said = b.command(args...); status != 0 || !strings.Contains(said, "10 objects pinned") {
		t.Fatalf("%v: status %d\n%s", args, status, said)
	}
	f.eventually("the end of the warning", func() bool { return f.warnings(api.WarnLost) == nil })
	if table := f.get("/routes").body; strings.Count(table, "Path") < 40 {
		t.Errorf("the table lacks routes:\n%s", table)
	}
	f.apply(strings.Replace(ingress("new"), "path: /", "path: /new", 1)) // a roll back of what was deleted freezes nothing
	f.eventually("a new object", func() bool { return strings.Contains(f.get("/routes").body, "kube_shop__new__") })
}

// TestTakeoverOfManyRoutesIsAWarning: a catch-all of one tenant that takes requests of many hosts of others.
func TestTakeoverOfManyRoutesIsAWarning(t *testing.T) {
	f := startReading(t, backend("s", "10.2.0.1")+ingresses(shops(30)...), true, nil)
	f.polled()
	f.apply(taking("other", shops(30)[:5]...))
	f.eventually("takeovers", func() bool { return len(f.noticed()) == 5 })
	if w := f.warnings(api.WarnTakeovers); w != nil {
		t.Errorf("a few takeovers: %+v", w)
	}
	f.apply(taking("other", shops(30)...))
	f.eventually("the warning", func() bool { return f.warnings(api.WarnTakeovers) != nil })
	w := f.warnings(api.WarnTakeovers)
	if !strings.Contains(w.Text, "routes lost requests to other namespaces") || !strings.Contains(w.Text, "RouteGroup other/all by unknown") ||
		!strings.Contains(w.Command, " --object RouteGroup/other/all ") {
		t.Errorf("the warning is %+v", w)
	}
	b := &besides{f: f}
	if status, said := b.command("status"); status != 1 || !strings.Contains(said, w.Text) {
		t.Errorf("status %d\n%s", status, said)
	}
	args := strings.Fields(strings.Replace(w.Command, "--why REASON", "--why=accident --yes", 1))
	if status, said := b.command(args...); status != 0 {
		t.Fatalf("%v: status %d\n%s", args, status, said)
	}
	f.eventually("the end of the takeover", func() bool {
		return strings.Count(f.get("/routes").body, `PathSubtree("/deep")`) <= 5
	})
}

// TestFrozenObjectIsExplained: its team is told who keeps it, and is not sent to accept what the guard does not hold.
func TestFrozenObjectIsExplained(t *testing.T) {
	f := startReading(t, backend("s", "10.2.0.1")+ingresses("cart", "pay"), true, nil)
	f.polled()
	b := &besides{f: f}
	if status, said := b.command("freeze", "-n=shop", "--why=sale", "--by=eve", "--yes"); status != 0 {
		t.Fatalf("status %d\n%s", status, said)
	}
	f.apply(strings.Replace(ingress("cart"), "path: /", "path: /new", 1))
	var said string
	f.eventually("the object waits", func() bool { // between the read and the decision nobody holds it yet
		said = f.request(http.MethodGet, f.support, "/explain?kind=Ingress&namespace=shop&name=cart").body
		return strings.Contains(said, "an operator (eve) holds it back")
	})
	f.eventually("the problem", func() bool {
		problems := f.request(http.MethodGet, f.support, api.PathProblems).body
		return strings.Contains(problems, "routesrv unfreeze") && !strings.Contains(problems, "accept it")
	})
	if !strings.Contains(said, "routesrv unfreeze") || strings.Contains(said, "accept it") {
		t.Errorf("it is explained by\n%s", said)
	}
}
