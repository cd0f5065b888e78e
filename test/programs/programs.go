// Package programs builds the programs of this repository for end-to-end tests, runs them as Kubernetes does, and asks what they
// serve. It is for tests.
package programs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Patience is how long anything may take before a test gives up. It affects nothing else.
const Patience = 2 * time.Minute

// Main is for a TestMain whose tests need a real API server, which KUBEBUILDER_ASSETS names. It builds programs of the folder cmd,
// which is in root, and passes the folder of the binaries to run; afterwards that is removed. It returns the status to exit with.
// Without an API server it runs nothing, which is a failure only where CI is true.
func Main(root string, names []string, run func(dir string) int) int {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		fmt.Fprintln(os.Stderr, "e2e: KUBEBUILDER_ASSETS is not set: no kube-apiserver to test against; run make e2e")
		if os.Getenv("CI") == "true" {
			return 1
		}
		return 0
	}
	dir, remove, err := Build(root, Race, names...)
	defer remove()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return run(dir)
}

// Kind is how programs are compiled. Its value is the name of their folder in the one that ROUTESRV_PROGRAMS names.
type Kind string

const (
	Plain Kind = "plain" // as in a release
	Race  Kind = "race"  // with the race detector, which watches the real processes
)

// Build returns a folder that has programs of the folder cmd, which is in root. Nobody may write to it: where make test has built all
// programs, which ROUTESRV_PROGRAMS says, it is the same for all packages. The caller calls remove in the end, also after an error.
func Build(root string, kind Kind, names ...string) (dir string, remove func(), err error) {
	if all := os.Getenv("ROUTESRV_PROGRAMS"); all != "" {
		return filepath.Join(all, string(kind)), func() {}, nil
	}
	if dir, err = os.MkdirTemp("", "routesrv-programs"); err != nil {
		return "", func() {}, err
	}
	remove = func() { os.RemoveAll(dir) }
	// Without the race detector everything is compiled as for a release, whose packages the cache of the compiler may have.
	args, cgo := []string{"build", "-trimpath", "-gcflags=all=-dwarf=false"}, "CGO_ENABLED=0"
	if kind == Race {
		args, cgo = []string{"build", "-race"}, "CGO_ENABLED=1"
	}
	args = append(args, "-o", dir+string(filepath.Separator))
	for _, name := range names {
		args = append(args, "./cmd/"+name)
	}
	build := exec.Command("go", args...)
	build.Dir, build.Env = root, append(os.Environ(), cgo)
	if out, err := build.CombinedOutput(); err != nil {
		return "", remove, fmt.Errorf("%v: %w\n%s", build, err, out)
	}
	return dir, remove, nil
}

// Tool returns the path of the first of several programs that this machine has. Without any the test is skipped, with a line that
// names the Debian package; where CI is true it fails, because the gate installs what the tests need.
func Tool(t testing.TB, debian string, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	missing := fmt.Sprintf("not tested without %s: apt-get install %s", strings.Join(names, " or "), debian)
	if os.Getenv("CI") == "true" {
		t.Fatal(missing)
	}
	t.Skip(missing)
	return ""
}

// Kubectl returns the path of the kubectl that was built with the API server, or else of the machine's.
func Kubectl(t testing.TB) string {
	t.Helper()
	for _, name := range []string{filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), "kubectl"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("there is no kubectl: run make assets, or put one into the PATH")
	return ""
}

// Eventually polls until the condition holds. The test fails if it does not within [Patience].
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	Within(t, Patience, what, ok)
}

// Within polls until the condition holds, and returns how long that took. The test fails if it does not within the limit.
func Within(t testing.TB, limit time.Duration, what string, ok func() bool) time.Duration {
	t.Helper()
	begin := time.Now()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Since(begin) > limit {
			t.Fatalf("waited %v for: %s", limit, what)
		}
		<-tick.C
	}
	return time.Since(begin)
}
