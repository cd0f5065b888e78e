package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/routesrv/routesrv/app/cli"
	"github.com/routesrv/routesrv/app/program"
	"github.com/routesrv/routesrv/app/query"
)

// kubectl runs commands in a world.
func kubectl(w *world) cli.Program {
	return cli.Program{Name: "kubectl routesrv", Remote: true, Places: func() cli.Places { return w }, Now: func() time.Time { return now }, Version: "v1"}
}

// buffer is safe for concurrent use.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// TestNobodyWaitsForAClusterThatHangs: a cluster that hangs, even one whose credentials ignore the time limit, delays nobody for
// longer than that. With more such clusters than are queried at a time, the command takes a multiple of the limit, and every
// other cluster is answered.
func TestNobodyWaitsForAClusterThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		w := &world{}
		for i := range 18 {
			name := fmt.Sprintf("hangs-%d", i)
			if i == 17 {
				name = "fine"
			}
			w.clusters = append(w.clusters, cli.Cluster{Name: name, Find: func(context.Context) ([]cli.Replica, error) {
				if strings.HasPrefix(name, "hangs") {
					<-over
					return nil, errors.New("too late")
				}
				return []cli.Replica{{Name: "a", Fault: "the pod is pending"}}, nil
			}})
		}
		var out, errs buffer
		began := time.Now()
		status := kubectl(w).Run(t.Context(), []string{"status", "--timeout=10s"}, program.Stdio{Out: &out, Err: &errs})
		took := time.Since(began)
		if status != cli.Trouble || took < 20*time.Second || took > 25*time.Second {
			t.Errorf("status %d after %v", status, took)
		}
		for _, want := range []string{"hangs-1: no answer within 10s\n", "hangs-16: no answer within 10s\n", "fine/a: the pod is pending\n"} {
			if !strings.Contains(errs.b.String(), want) {
				t.Errorf("no %q in\n%s", want, &errs.b)
			}
		}
		close(over)
		synctest.Wait()
	})
}

// TestInterruptEndsACommand: it ends at once.
func TestInterruptEndsACommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := &world{clusters: []cli.Cluster{{Find: func(ctx context.Context) ([]cli.Replica, error) {
			cancel()
			<-ctx.Done()
			return nil, ctx.Err()
		}}}}
		var out, errs buffer
		began := time.Now()
		if status := kubectl(w).Run(ctx, []string{"problems"}, program.Stdio{Out: &out, Err: &errs}); status != cli.Trouble || time.Since(began) > 0 {
			t.Errorf("status %d after %v", status, time.Since(began))
		}
	})
}

func TestReplicasThatCatchUpAreNotNamed(t *testing.T) {
	digests := []string{strings.Repeat("a", 64), strings.Repeat("b", 64)}
	var mu sync.Mutex
	asked := 0
	handler := func(i int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			if asked++; asked > 2 {
				i = 1 // both have the newer table
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"started": now, "ready": true, "table": map[string]any{"digest": digests[i], "revision": i}})
		})
	}
	w := &world{}
	var replicas []cli.Replica
	for i, name := range []string{"a", "b"} {
		s := httptest.NewServer(handler(i))
		defer s.Close()
		transport := &http.Transport{}
		defer transport.CloseIdleConnections()
		replicas = append(replicas, cli.Replica{Name: name, Support: &cli.Listener{URL: s.URL, Transport: transport}})
	}
	w.clusters = []cli.Cluster{{Find: func(context.Context) ([]cli.Replica, error) { return replicas, nil }}}
	var out, errs buffer
	if status := kubectl(w).Run(t.Context(), []string{"status"}, program.Stdio{Out: &out, Err: &errs}); status != cli.Healthy || asked < 4 {
		t.Errorf("status %d after %d answers\n%s", status, asked, &out.b)
	}
}

func TestURLsAreReplicas(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/behind/a/proxy/status" {
			http.Redirect(w, r, "http://example.org/", http.StatusFound)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"started": now, "table": map[string]any{"digest": strings.Repeat("d", 64)}})
	}))
	defer s.Close()
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"status", s.URL + "/behind/a/proxy/"}, cli.Healthy, "healthy"},
		{[]string{"status", s.URL}, cli.Trouble, "/status: 302 Found"},
		{[]string{"status"}, cli.Trouble, "must be the URL of the support listener"},
		{[]string{"status", "http://"}, cli.Trouble, `"http://": must be the URL`},
		{[]string{"status", "http://a/?x=1"}, cli.Trouble, "must be the URL"},
		{[]string{"explore", s.URL, "x"}, cli.Trouble, `unknown command "explore"`},
		{[]string{"help"}, cli.Healthy, "completion"},
		{[]string{"version"}, cli.Healthy, "v1"},
	} {
		var out buffer
		p := cli.Program{Name: "routesrv", Places: query.NewURLs, Version: "v1"}
		if status := p.Run(t.Context(), c.args, program.Stdio{Out: &out, Err: &out}); status != c.status || !strings.Contains(out.b.String(), c.want) {
			t.Errorf("%q: status %d, want %d and %q in\n%s", c.args, status, c.status, c.want, &out.b)
		}
	}
}

func TestCompletion(t *testing.T) {
	for _, c := range []struct {
		words []string
		want  []string
	}{
		{[]string{"cl"}, []string{"clients", ":4"}},
		{[]string{"status", "--max-"}, []string{"--max-age", ":4"}},
		{[]string{"status", "-o", ""}, []string{"text", "json", ":4"}},
		{[]string{"status", "--output=j"}, []string{"text", "json", ":4"}},
		{[]string{"clients", "--output", "text", "--state", "be"}, []string{"current", "behind", "rejected", "silent", ":4"}},
		{[]string{"explain", "ing"}, []string{"ingress", ":4"}},
	} {
		var out, errs buffer
		kubectl(&world{}).Run(t.Context(), append([]string{"__complete"}, c.words...), program.Stdio{Out: &out, Err: &errs})
		var got []string
		for line := range strings.Lines(out.b.String()) {
			word, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
			got = append(got, word)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.words, diff)
		}
	}
}

// TestMistypedCommandIsGuessed: and commands for other programs are not named.
func TestMistypedCommandIsGuessed(t *testing.T) {
	for typed, want := range map[string]string{"stauts": "Did you mean this?\n    status", "rolback": "Did you mean this?\n    rollback", "abracadabra": `unknown command "abracadabra"`} {
		var errs bytes.Buffer
		status := cli.Program{Name: "kubectl routesrv", Remote: true, Places: func() cli.Places { return new(world) }}.Run(t.Context(), []string{typed}, program.Stdio{Out: io.Discard, Err: &errs})
		if said := errs.String(); status != cli.Trouble || !strings.Contains(said, want) || strings.Contains(said, "post") {
			t.Errorf("%s: status %d, %s", typed, status, said)
		}
	}
}

// TestWithoutAnAPIServerURLsAreAsked: a file of support listeners takes the place of clusters.
func TestWithoutAnAPIServerURLsAreAsked(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/status-healthy.txtar")
	if err != nil {
		t.Fatal(err)
	}
	w := readWorld(t, slices.DeleteFunc(archive.Files, func(f txtar.File) bool { return !strings.Contains(f.Name, "/") }))
	replicas, err := w.clusters[0].Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "urls")
	if err := os.WriteFile(file, []byte("eu "+replicas[0].Support.URL+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	away := &world{clusters: []cli.Cluster{{Name: "prod", Find: func(context.Context) ([]cli.Replica, error) { return nil, errors.New("connection refused") }}}}
	var out, errs bytes.Buffer
	p := cli.Program{Name: "kubectl routesrv", Remote: true, Places: func() cli.Places { return away }, Now: func() time.Time { return now }}
	if status := p.Run(t.Context(), []string{"status", "--urls=" + file}, program.Stdio{Out: &out, Err: &errs}); status != cli.Healthy || !strings.Contains(out.String(), "eu ") {
		t.Errorf("status %d\n%s%s", status, &out, &errs)
	}
}
