package upgrade_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// programs are the programs of one version.
type programs struct {
	name             string // used in messages
	routesrv, client string // paths
}

// record makes tests write testdata/first instead of comparing with it.
var record = flag.Bool("record", false, "rewrite testdata/first")

// TestMain sets current and previous, and tests only read them. previous is nil if git does not know its commit.
var current, previous *programs

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "upgrade")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if current, err = build("current", "../..", filepath.Join(dir, "current")); err == nil {
		previous, err = buildPrevious(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// build builds the programs of a source tree as a release does, so that both versions can use the compiler's cache.
func build(name, source, out string) (*programs, error) {
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -X main.version="+name, "-o", out+"/", "./cmd/routesrv", "./cmd/dataplane-client")
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, err
	}
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build %s: %w\n%s", name, err, text)
	}
	return &programs{name, filepath.Join(out, "routesrv"), filepath.Join(out, "dataplane-client")}, nil
}

// buildPrevious builds the programs of the previous version. It returns nil if git has no such commit.
func buildPrevious(dir string) (*programs, error) {
	text, err := os.ReadFile("testdata/previous")
	if err != nil {
		return nil, err
	}
	var commit string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			commit = line
		}
	}
	if commit == "" {
		return nil, errors.New("testdata/previous names no tag and no commit")
	}
	if err := exec.Command("git", "rev-parse", "--quiet", "--verify", commit+"^{commit}").Run(); err != nil {
		fmt.Fprintf(os.Stderr, "git does not know %s: only the files and exchanges of testdata/first are tested. git fetch --unshallow --tags gets it.\n", commit)
		return nil, nil
	}
	source := filepath.Join(dir, "source")
	if err := os.MkdirAll(source, 0o755); err != nil {
		return nil, err
	}
	// Archive the whole tree: git archive of single folders would be relative to the folder of the test.
	unpack := exec.Command("sh", "-c", `git -C "$(git rev-parse --show-toplevel)" archive "$0" | tar -x -C "$1"`, commit, source)
	if text, err := unpack.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("sources of %s: %w\n%s", commit, err, text)
	}
	return build("previous", source, filepath.Join(dir, "previous"))
}
