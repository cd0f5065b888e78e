package cli_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"go.uber.org/goleak"

	"github.com/routesrv/routesrv/app/cli"
	"github.com/routesrv/routesrv/app/options"
	"github.com/routesrv/routesrv/app/program"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// now is the current time in all tests.
var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// world is the set of clusters of a test.
type world struct {
	clusters []cli.Cluster
	closed   bool
}

func (w *world) Define(flags *options.Flags) {
	var text string
	flags.Add("--server-namespace", options.Text("NAME", &text, "routesrv"), "Namespace of the route servers.")
	flags.Add("-l,--selector", options.Text("LABELS", &text, "app=x"), "Labels of the pods.")
}
func (w *world) Args() string { return "" }
func (w *world) Clusters(args []string) ([]cli.Cluster, []string, error) {
	return w.clusters, args, nil
}
func (w *world) Close() { w.closed = true }

// readWorld makes the clusters of an archive. A file CLUSTER/REPLICA/PATH is what a replica answers to GET /PATH; one that begins
// with a status code has that status, PATH.text is the answer for people, and POST.PATH that to POST. CLUSTER/REPLICA/fault is
// why the replica cannot be queried, and CLUSTER/error why the cluster cannot be reached. A replica with a file "hangs" never
// answers.
func readWorld(t *testing.T, files []txtar.File) *world {
	t.Helper()
	w := &world{}
	replicas := make(map[string][]cli.Replica)
	failures := make(map[string]string)
	answers := make(map[string]map[string][]byte)
	var order []string
	for _, f := range files {
		parts := strings.SplitN(f.Name, "/", 3)
		cluster := parts[0]
		if cluster == "one" {
			cluster = ""
		}
		if !slices.Contains(order, cluster) {
			order = append(order, cluster)
		}
		if parts[1] == "error" {
			failures[cluster] = strings.TrimSpace(string(f.Data))
			continue
		}
		key := parts[0] + "/" + parts[1]
		if answers[key] == nil {
			answers[key] = make(map[string][]byte)
			r := cli.Replica{Name: parts[1]}
			if parts[2] == "fault" {
				r.Fault = strings.TrimSpace(string(f.Data))
			} else {
				s := httptest.NewServer(replicaHandler(answers[key]))
				t.Cleanup(s.Close)
				transport := &http.Transport{}
				t.Cleanup(transport.CloseIdleConnections)
				l := &cli.Listener{URL: s.URL, Transport: transport}
				r.Support, r.Post, r.Host = l, accepting(s.URL, transport), s.Listener.Addr().String()
				r.Dial = new(net.Dialer).DialContext
			}
			replicas[cluster] = append(replicas[cluster], r)
		}
		answers[key][parts[2]] = f.Data
	}
	for _, name := range order {
		w.clusters = append(w.clusters, cli.Cluster{Name: name, Find: func(context.Context) ([]cli.Replica, error) {
			if text := failures[name]; text != "" {
				return nil, errors.New(text)
			}
			return replicas[name], nil
		}})
	}
	return w
}

// accepting posts to the replica, whose answer is that of the program in the pod.
func accepting(server string, transport http.RoundTripper) func(context.Context, string, url.Values) ([]byte, error) {
	return func(ctx context.Context, path string, form url.Values) ([]byte, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, server+path+"?"+form.Encode(), nil)
		if err != nil {
			return nil, err
		}
		resp, err := transport.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err == nil && resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", resp.Status, bytes.TrimSpace(body))
		}
		return body, err
	}
}

// replicaHandler answers as the files of a replica say.
func replicaHandler(files map[string][]byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if files["hangs"] != nil {
			<-r.Context().Done()
			return
		}
		name := strings.TrimPrefix(r.URL.Path, "/")
		if r.Method == http.MethodPost {
			name = "POST." + name
		} else if text := name + ".text"; r.Header.Get("Accept") != "application/json" && files[text] != nil {
			name = text
		}
		body, status := files[name], http.StatusOK
		if body == nil {
			http.NotFound(w, r)
			return
		}
		if first, rest, ok := bytes.Cut(body, []byte("\n")); ok && len(first) == 3 {
			if _, err := fmt.Sscanf(string(first), "%d", &status); err == nil {
				body = rest
			}
		}
		escape, reorder := "\x1b", "\u202e"
		if bytes.HasPrefix(body, []byte("{")) {
			escape = `\u001b` // as a JSON encoder writes it
		}
		w.WriteHeader(status)
		_, _ = strings.NewReplacer("<ESC>", escape, "<RLO>", reorder).WriteString(w, string(body))
	})
}

// address matches the loopback address of a test server, which differs from run to run.
var address = regexp.MustCompile(`127\.0\.0\.1:\d+`)

// TestGolden runs the commands that the files of testdata have as args, in the world of the other files.
func TestGolden(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var args []string
			in := ""
			var files, kept []txtar.File
			for _, f := range archive.Files {
				switch f.Name {
				case "args":
					args = strings.Split(strings.TrimSuffix(string(f.Data), "\n"), "\n")
				case "terminal":
					in = string(f.Data)
				case "status", "out", "err":
					continue
				default:
					files = append(files, f)
				}
				kept = append(kept, f)
			}
			w := readWorld(t, files)
			var out, errs bytes.Buffer
			std := program.Stdio{In: strings.NewReader(in), Out: &out, Err: &errs, InTerminal: in != ""}
			p := cli.Program{Name: "kubectl routesrv", Remote: true, Places: func() cli.Places { return w }, Now: func() time.Time { return now }}
			status := p.Run(t.Context(), args, std)
			if !w.closed && !strings.Contains(path, "help-") && !strings.Contains(path, "usage-unknown") {
				t.Error("the places were not closed")
			}
			for name, text := range map[string]string{"out": out.String(), "err": errs.String()} {
				if strings.ContainsAny(text, "\x1b\u202e\x7f\u009b") {
					t.Errorf("%s passes on what a terminal acts on: %q", name, text)
				}
			}
			clean := func(b *bytes.Buffer) []byte { return address.ReplaceAll(b.Bytes(), []byte("ADDRESS")) }
			got := txtar.Format(&txtar.Archive{Comment: archive.Comment, Files: append(kept,
				txtar.File{Name: "status", Data: fmt.Appendln(nil, status)}, txtar.File{Name: "out", Data: clean(&out)}, txtar.File{Name: "err", Data: clean(&errs)},
			)})
			if *update {
				if err := os.WriteFile(path, got, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
