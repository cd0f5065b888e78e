package programs_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/test/programs"
)

// teams are the objects of two namespaces in a folder.
type teams struct {
	t      *testing.T
	folder string
	server *programs.Process
	args   []string
}

// app is an Ingress with its service and a pod.
func app(namespace, name, filter, pod string) string {
	return fmt.Sprintf(`
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: %[2]s, namespace: %[1]s, annotations: {zalando.org/skipper-filter: %[3]q, team.example.org/token: hunter2}}
spec: {rules: [{host: %[2]s.%[1]s.example.org, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: %[2]s, port: {number: 80}}}}]}}]}
---
apiVersion: v1
kind: Service
metadata: {name: %[2]s, namespace: %[1]s}
spec: {clusterIP: 10.3.0.1, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Endpoints
metadata: {name: %[2]s, namespace: %[1]s}
subsets: [{addresses: [{ip: %[4]s}], ports: [{port: 8080, protocol: TCP}]}]
---
`, namespace, name, filter, pod)
}

func (w *teams) apply(namespace, name, filter, pod string) {
	w.t.Helper()
	w.write(namespace, name, app(namespace, name, filter, pod))
}

func (w *teams) write(namespace, name, text string) {
	w.t.Helper()
	path := filepath.Join(w.folder, namespace+"."+name+".yaml")
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		w.t.Fatal(err)
	}
}

// remove deletes an Ingress. Its service stays.
func (w *teams) remove(namespace, name, pod string) {
	w.t.Helper()
	_, rest, _ := strings.Cut(app(namespace, name, "", pod), "---")
	w.write(namespace, name, rest)
}

func (w *teams) start() {
	main, support := programs.FreeAddress(w.t), programs.FreeAddress(w.t)
	w.server = programs.Start(w.t, binary(w.t, "routesrv"), main, support, append(w.args,
		"--manifests="+w.folder, "-source-poll-timeout=100", "-address="+main, "-support-listener="+support, "-wait-for-healthcheck-interval=0s"))
	w.server.Ready(w.t)
}

// serves waits until the table has texts, or not if they begin with "!".
func (w *teams) serves(what string, texts ...string) {
	w.t.Helper()
	body := ""
	w.t.Cleanup(func() {
		if w.t.Failed() {
			w.t.Logf("%s, last table:\n%s", what, body)
		}
	})
	programs.Eventually(w.t, what, func() bool {
		a, err := programs.Fetch(w.t.Context(), w.server.Main+"/routes", "")
		if body = a.Body; err != nil {
			return false
		}
		for _, text := range texts {
			if text, not := strings.CutPrefix(text, "!"); strings.Contains(body, text) == not {
				return false
			}
		}
		return true
	})
}

// run runs a command of routesrv, which must end with the status, and returns what it says.
func (w *teams) run(status int, args ...string) string {
	w.t.Helper()
	out, err := exec.CommandContext(w.t.Context(), binary(w.t, "routesrv"), args...).CombinedOutput()
	got := 0
	if failed, ok := err.(*exec.ExitError); ok {
		got = failed.ExitCode()
	} else if err != nil {
		w.t.Fatal(err)
	}
	if got != status {
		w.t.Fatalf("routesrv %s: status %d, want %d\n%s", strings.Join(args, " "), got, status, out)
	}
	return string(out)
}

// inPod runs a command in the pod.
func (w *teams) inPod(status int, args ...string) string {
	w.t.Helper()
	return w.run(status, append(args, "--state-dir="+w.server.State)...)
}

// entryBefore returns the number of the last entry before one that names an object.
func (w *teams) entryBefore(name string) (n uint64) {
	w.t.Helper()
	programs.Eventually(w.t, "an entry of "+name, func() bool {
		a, err := programs.Fetch(w.t.Context(), w.server.Support+api.PathHistory+"?object=Ingress/"+name, "")
		var all []api.HistoryEntry
		if err != nil || json.Unmarshal([]byte(a.Body), &all) != nil || len(all) == 0 || all[0].N == 1 {
			return false
		}
		n = all[0].N - 1
		return true
	})
	return n
}

// TestABadChangeIsRolledBack: while it is applied again and again, pods come and go, and the server restarts.
func TestABadChangeIsRolledBack(t *testing.T) {
	t.Parallel()
	w := &teams{t: t, folder: t.TempDir(), args: []string{"--state-dir=" + t.TempDir()}}
	w.apply("shop", "cart", `setPath("/good")`, "10.1.0.1")
	w.apply("shop", "pay", `setPath("/pay")`, "10.1.0.2")
	w.apply("team", "app", `setPath("/app")`, "10.1.0.3")
	w.start()
	w.serves("all", "/good", "/pay", "/app")
	w.apply("shop", "cart", `setPath("/bad")`, "10.1.0.1")
	w.serves("the bad change", "/bad")
	good := fmt.Sprint(w.entryBefore("shop/cart"))

	if said := w.run(0, "log", w.server.Support); !strings.Contains(said, "Ingress shop/cart changed") {
		t.Errorf("log says\n%s", said)
	}
	bad := fmt.Sprint(w.entryBefore("shop/cart") + 1)
	if said := w.run(0, "show", w.server.Support, bad); !strings.Contains(said, "/good") || !strings.Contains(said, "/bad") || strings.Contains(said, "/pay") {
		t.Errorf("show says\n%s", said)
	}
	cart := []string{"rollback", good, "--object=Ingress/shop/cart", "--why=checkout is broken", "--by=ann"}
	if said := w.inPod(0, append(cart, "--dry-run")...); !strings.Contains(said, "/good") {
		t.Errorf("dry run says\n%s", said)
	}
	w.serves("nothing was changed by that", "/bad")
	w.inPod(0, append(cart, "--yes")...)
	w.serves("rolled back", "/good", "!/bad")
	for i := range 3 {
		w.apply("shop", "cart", `setPath("/bad")`, fmt.Sprintf("10.1.1.%d", i))
		w.apply("team", "app", fmt.Sprintf(`setPath("/app-%d")`, i), "10.1.0.3")
		w.serves("applied again", `setPath("/good") -> "http://10.1.1.`+fmt.Sprint(i), fmt.Sprintf("/app-%d", i), "!/bad")
	}
	w.inPod(0, "freeze", "-n=shop", "--why=sale", "--until-released", "--yes", "--by=ben")
	w.apply("shop", "pay", `setPath("/other")`, "10.1.0.2")
	w.apply("shop", "fresh", `setPath("/fresh")`, "10.1.0.9")
	w.apply("team", "app", `setPath("/flows")`, "10.1.0.3")
	w.serves("frozen", "/pay", "/flows", "!/other", "!/fresh")

	w.server.Stop(t)
	w.apply("shop", "pay", `setPath("/meanwhile")`, "10.1.0.7")
	w.remove("shop", "cart", "10.1.0.8")
	w.start()
	w.apply("team", "app", `setPath("/again")`, "10.1.0.3")
	w.serves("after a restart", "/again", `setPath("/good") -> "http://10.1.0.8`, `setPath("/pay") -> "http://10.1.0.7`, "!/meanwhile", "!/fresh")

	a, err := programs.Fetch(t.Context(), w.server.Support+api.PathStatus, "")
	var status api.Status
	if err != nil || json.Unmarshal([]byte(a.Body), &status) != nil || status.Steering == nil || len(status.Steering.Orders) != 2 {
		t.Fatalf("status %v %+v", err, status.Steering)
	}
	if o := status.Steering.Orders[0]; o.By != "ben" || o.What != "freeze" || o.Scope != "namespace shop" || !o.Until.IsZero() {
		t.Errorf("order %+v", o)
	}
	if said := w.inPod(0, "unfreeze", "--all", "--yes"); !strings.Contains(said, "/meanwhile") {
		t.Errorf("unfreeze says\n%s", said)
	}
	w.serves("released", "/meanwhile", "/fresh", "!/good")
	if said := w.inPod(2, "unfreeze", "--all", "--yes"); !strings.Contains(said, "nothing is frozen or pinned") {
		t.Errorf("a second release says\n%s", said)
	}
	said := w.run(0, "log", w.server.Support)
	for _, want := range []string{"roll back of Ingress shop/cart, 1 pinned by ann (checkout is broken)", "freeze of namespace shop by ben (sale)", "release of all objects"} {
		if !strings.Contains(said, want) {
			t.Errorf("log lacks %q:\n%s", want, said)
		}
	}
	files, err := filepath.Glob(filepath.Join(w.server.State, "history", "*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v %v", f, info.Mode(), err)
		}
	}
}

// TestSteeringRefusesWhatIsWrong: with a sentence that says what to do.
func TestSteeringRefusesWhatIsWrong(t *testing.T) {
	t.Parallel()
	w := &teams{t: t, folder: t.TempDir(), args: []string{"--state-dir=" + t.TempDir()}}
	w.apply("shop", "cart", `setPath("/good")`, "10.1.0.1")
	w.start()
	w.serves("it", "/good")
	for want, args := range map[string][]string{
		"choose one of -n, --object and --all": {"freeze", "--why=x", "--yes"},
		"set --why":                            {"freeze", "--all", "--yes"},
		"stdin is not a terminal":              {"freeze", "--all", "--why=x"},
		"no such entry in the history":         {"rollback", "99", "--all", "--why=x", "--yes"},
		"must be the number of an entry":       {"rollback", "last", "--all", "--why=x", "--yes"},
		"must be KIND/NAMESPACE/NAME":          {"freeze", "--object=cart", "--why=x", "--yes"},
		"a Service cannot be steered":          {"freeze", "--object=Service/shop/cart", "--why=x", "--yes"},
		"--for":                                {"freeze", "--all", "--for=1000h", "--why=x", "--yes"},
		"nothing is frozen or pinned":          {"unfreeze", "--object=Ingress/shop/cart", "--yes"},
		"no such entry in the history: ":       {"rollback", "1", "--object=Ingress/shop/none", "--why=x", "--yes"},
	} {
		if said := w.inPod(2, args...); !strings.Contains(said, strings.TrimSuffix(want, ": ")) {
			t.Errorf("%v says %q, want %q", args, said, want)
		}
	}
}
