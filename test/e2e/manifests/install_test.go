package manifests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/routesrv/routesrv/test/programs"
)

const installGuide = "../../../docs/start/install.md"

// guideBlock is a block of commands of the guide with their output. The comment before it says what the test does with it:
//
//	<!-- run -->                  run the commands against a separate API server, and compare the outputs
//	<!-- run beside routesrv -->  the same, while the built routesrv runs as its pod would, behind the forwarded ports
//	<!-- not run: why -->         nothing: the output was written by hand
type guideBlock struct {
	line   int
	how    string
	steps  []guideStep
	reason string // why it is not run
}

// guideStep is one command and its output.
type guideStep struct {
	command, want string
}

var blockMarker = regexp.MustCompile(`^<!-- (run|run beside routesrv|not run: (.+)) -->$`)

// readGuide extracts the blocks from the guide. It expects a marker before each of them, and no other kinds of blocks of
// commands.
func readGuide(t *testing.T) []guideBlock {
	t.Helper()
	text, err := os.ReadFile(installGuide)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	var blocks []guideBlock
	for i := 0; i < len(lines); i++ {
		switch lines[i] {
		case "```sh", "```bash", "```shell":
			t.Errorf("%s:%d: commands without their output: use a console block", installGuide, i+1)
		case "```console":
			m := blockMarker.FindStringSubmatch(lines[i-1])
			if m == nil {
				t.Fatalf("%s:%d: no comment before the block says whether it is run", installGuide, i+1)
			}
			b := guideBlock{line: i + 1, how: m[1], reason: m[2]}
			for i++; lines[i] != "```"; i++ {
				if command, ok := strings.CutPrefix(lines[i], "$ "); ok {
					b.steps = append(b.steps, guideStep{command: command})
				} else if n := len(b.steps); n == 0 {
					t.Fatalf("%s:%d: an output before any command", installGuide, i+1)
				} else {
					b.steps[n-1].want += lines[i] + "\n"
				}
			}
			blocks = append(blocks, b)
		}
	}
	return blocks
}

// matches compares an output with that of the guide, in which "…" stands for any text, including several lines.
func matches(want, got string) bool {
	parts := strings.Split(strings.TrimSpace(want), "…")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile(`(?s)\A` + strings.Join(parts, ".*") + `\z`).MatchString(strings.TrimSpace(got))
}

func TestOutputsOfTheGuideAreCompared(t *testing.T) {
	for _, tt := range []struct {
		want, got string
		ok        bool
	}{
		{"a b\n", "a b\n", true},
		{"a b\n", "a c\n", false},
		{"a-… created\n", "a-5t7 created\n", true},
		{"a\n…\nd\n", "a\nb\nc\nd\n", true},
		{"a\n", "a\nb\n", false},
		{"", "b\n", false},
	} {
		if got := matches(tt.want, tt.got); got != tt.ok {
			t.Errorf("%q matches %q: %v", tt.want, tt.got, got)
		}
	}
}

// TestInstallGuide follows docs/start/install.md, from an empty cluster to an empty cluster.
func TestInstallGuide(t *testing.T) {
	t.Parallel() // it has its own API server
	blocks := readGuide(t)
	g := newGuide(t)
	ran := 0
	for _, b := range blocks {
		if b.reason != "" {
			t.Logf("%s:%d: not run: %s", installGuide, b.line, b.reason)
			continue
		}
		for _, s := range b.steps {
			got := g.do(t, b, s)
			ran++
			if !matches(s.want, got) {
				t.Errorf("%s:%d: %s\ngot\n%s\nwant\n%s", installGuide, b.line, s.command, got, s.want)
			}
		}
	}
	if ran < 10 {
		t.Errorf("only %d commands were run", ran)
	}
}

// TestKustomizationOfTheGuideBuilds: the kustomization of the guide for a user's own cluster, at the place that the guide names.
func TestKustomizationOfTheGuideBuilds(t *testing.T) {
	text, err := os.ReadFile(installGuide)
	if err != nil {
		t.Fatal(err)
	}
	const name = "my-cluster/kustomization.yaml"
	_, own, ok := strings.Cut(string(text), "```yaml\n# "+name)
	if !ok {
		t.Fatalf("%s has no %s", installGuide, name)
	}
	own, _, _ = strings.Cut(own, "```")
	root := t.TempDir()
	if err := os.CopyFS(filepath.Join(root, "deploy"), os.DirFS("../../../deploy")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, "my-cluster"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, name), []byte("#"+own), 0o644); err != nil {
		t.Fatal(err)
	}
	values, err := os.ReadFile("../../../deploy/kustomize/values/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	values = []byte(strings.Replace(string(values), "\nimage: routesrv:devel\n", "\nimage: example/routesrv:v1\n", 1))
	if err := os.WriteFile(filepath.Join(root, "my-cluster", "values.yaml"), values, 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), programs.Kubectl(t), "kustomize", filepath.Join(root, "my-cluster")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{"image: example/routesrv:v1", "kind: NetworkPolicy", "kind: ClusterRole"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in what is built", want)
		}
	}
}

// guide runs commands against an API server into which nothing was installed.
type guide struct {
	env      *envtest.Environment
	environ  []string
	routesrv *programs.Process // nil until a block needs it
}

func newGuide(t *testing.T) *guide {
	t.Helper()
	env := &envtest.Environment{ControlPlaneStartTimeout: programs.Patience, ControlPlaneStopTimeout: programs.Patience}
	config, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	admin, err := env.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := admin.KubeConfig()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	finalizeNamespaces(t, client)
	search := filepath.Dir(programs.Kubectl(t)) + string(os.PathListSeparator) + os.Getenv("PATH")
	return &guide{env: env, environ: append(os.Environ(), "KUBECONFIG="+path, "PATH="+search)}
}

// finalizeNamespaces completes the deletion of namespaces, as the controller does that is not part of the API server. The guide
// itself deletes their contents.
func finalizeNamespaces(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w, err := client.CoreV1().Namespaces().Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range w.ResultChan() {
			ns, ok := e.Object.(*corev1.Namespace)
			if !ok || e.Type == apiwatch.Deleted || ns.DeletionTimestamp == nil {
				continue
			}
			ns = ns.DeepCopy()
			ns.Spec.Finalizers = nil
			if _, err := client.CoreV1().Namespaces().Finalize(ctx, ns, metav1.UpdateOptions{}); err != nil && ctx.Err() == nil {
				t.Logf("finalize namespace %s: %v", ns.Name, err) // a later event retries it
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		w.Stop()
		<-done
	})
}

// do runs a command of the guide in the root of the checkout and returns its output.
func (g *guide) do(t *testing.T, b guideBlock, s guideStep) string {
	t.Helper()
	if b.how != "run" && g.routesrv == nil {
		g.routesrv = g.startPod(t)
	}
	if args, ok := strings.CutPrefix(s.command, "curl "); ok {
		return g.curl(t, strings.Fields(args))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", s.command)
	cmd.Dir, cmd.Env = root, g.environ
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !(errors.As(err, &exit) && strings.TrimSpace(s.want) == "no") { // kubectl auth can-i ends with 1
		t.Fatalf("%s:%d: %s: %v\n%s", installGuide, b.line, s.command, err, out)
	}
	return string(out)
}

// curl returns what a forwarded port would answer. The program itself is not on every machine.
func (g *guide) curl(t *testing.T, args []string) string {
	t.Helper()
	url := args[len(args)-1]
	for port, base := range map[string]string{"9090": g.routesrv.Main, "9911": g.routesrv.Support} {
		url = strings.Replace(url, "localhost:"+port, base, 1)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(args, "-si") {
		return string(body)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s %s\n", resp.Proto, resp.Status)
	for _, name := range append(slices.DeleteFunc(slices.Sorted(maps.Keys(resp.Header)), func(n string) bool { return n == "Date" }), "Date") {
		fmt.Fprintf(&out, "%s: %s\n", name, resp.Header.Get(name)) // in the order in which Go's server sends them
	}
	return out.String() + "\n" + string(body)
}

// startPod runs the built routesrv with the arguments of the Deployment in the cluster, as its ServiceAccount. Arguments that
// have to differ outside of a pod are replaced.
func (g *guide) startPod(t *testing.T) *programs.Process {
	t.Helper()
	kubectl := func(args ...string) []byte {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, programs.Kubectl(t), args...)
		cmd.Env = g.environ
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v", cmd, err)
		}
		return out
	}
	var args []string
	if err := json.Unmarshal(kubectl("-n", systemNamespace, "get", "deployment", "routesrv", "-o", "jsonpath={.spec.template.spec.containers[0].args}"), &args); err != nil {
		t.Fatal(err)
	}
	token := strings.TrimSpace(string(kubectl("-n", systemNamespace, "create", "token", serviceAccount)))
	config := programs.Kubeconfig(t, g.env.Config.Host, g.env.Config.CAData, token)
	outside := map[string]string{
		"-kubernetes-in-cluster":                "--kubeconfig=" + config,
		"-config-file=/etc/routesrv/flags.yaml": "-config-file=../../../deploy/kustomize/base/flags.yaml",
		"--state-dir=/var/lib/routesrv":         "--state-dir=" + t.TempDir(),
		"-wait-for-healthcheck-interval=15s":    "-wait-for-healthcheck-interval=0s",
	}
	replaced := 0
	for i, a := range args {
		if o, ok := outside[a]; ok {
			args[i] = o
			replaced++
		}
	}
	if replaced != len(outside) {
		t.Fatalf("the Deployment has the arguments %q, and only %d of %d that are different outside of a pod", args, replaced, len(outside))
	}
	main, support := programs.FreeAddress(t), programs.FreeAddress(t)
	p := programs.Start(t, routesrv, main, support, append(args, "-address="+main, "-support-listener="+support))
	p.Ready(t)
	programs.Eventually(t, "the last-known-good file, of which the guide's status tells", func() bool {
		a, err := programs.Fetch(t.Context(), p.Support+"/status", "")
		return err == nil && strings.Contains(a.Body, `"written"`)
	})
	return p
}
