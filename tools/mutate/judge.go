package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// outcome is the result of trying a mutant.
type outcome string

const (
	killed   outcome = "killed"
	timedOut outcome = "timeout" // counts as killed
	survived outcome = "survived"
	notBuilt outcome = "not built" // does not count
)

// pkg is a package to mutate.
type pkg struct {
	Dir, ImportPath string
	GoFiles         []string
	Module          struct{ Dir string }

	name  string   // relative to the root of the module
	tests []string // directories, relative to the root of the module, whose tests count for the package; the first is name
}

// list asks the go command for a package. with are other packages whose tests also count for it.
func list(ctx context.Context, root, name string, with []string) (*pkg, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-json=Dir,ImportPath,GoFiles,Module", "./"+name)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			err = errors.New(strings.TrimSpace(string(failed.Stderr)))
		}
		return nil, fmt.Errorf("package %s: %w", name, err)
	}
	p := &pkg{name: name, tests: append([]string{name}, with...)}
	if err := json.Unmarshal(out, p); err != nil {
		return nil, fmt.Errorf("package %s: %w", name, err)
	}
	return p, nil
}

// mutants lists the mutants of all files of the package, and returns the files.
func (p *pkg) mutants() ([]*mutant, map[string][]byte, error) {
	var all []*mutant
	sources := make(map[string][]byte)
	for _, file := range p.GoFiles {
		source, err := os.ReadFile(filepath.Join(p.Dir, file))
		if err != nil {
			return nil, nil, err
		}
		name := filepath.ToSlash(filepath.Join(p.name, file))
		found, err := find(name, source)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		sources[name] = source
		all = append(all, found...)
	}
	return all, sources, nil
}

// judge runs the tests of one package with changed files; the files on disk stay unchanged.
type judge struct {
	p       *pkg
	pattern string // for names of tests; empty means all
	scratch string
	limits  []time.Duration
}

// least and factor define the time limit of a mutant: tests that pass in a second on a quiet machine take longer on a busy one.
const (
	least      = 20 * time.Second
	factor     = 4
	buildLimit = 10 * time.Minute
)

// control runs the tests without changes. It fails if they fail, and otherwise measures their duration.
func (j *judge) control(ctx context.Context) error {
	for i, dir := range j.p.tests {
		binary, output, err := j.build(ctx, dir, i, nil)
		if err != nil {
			return fmt.Errorf("the unchanged tests of %s do not build: %w\n%s", dir, err, output)
		}
		began := time.Now()
		if failing, output, err := j.run(ctx, dir, binary, buildLimit); err != nil {
			return fmt.Errorf("the unchanged tests of %s fail (%s): %w\n%s", dir, failing, err, tail(output))
		}
		j.limits = append(j.limits, max(least, factor*time.Since(began)))
	}
	return nil
}

// try returns the outcome of a mutant, and the test that killed it.
func (j *judge) try(ctx context.Context, m *mutant, source []byte) (outcome, string, error) {
	mutated := filepath.Join(j.scratch, "mutated.go")
	if err := os.WriteFile(mutated, m.apply(source), 0o600); err != nil {
		return "", "", err
	}
	overlay := map[string]map[string]string{"Replace": {filepath.Join(j.p.Module.Dir, filepath.FromSlash(m.File)): mutated}}
	for i, dir := range j.p.tests {
		binary, _, err := j.build(ctx, dir, i, overlay)
		switch {
		case ctx.Err() != nil:
			return "", "", ctx.Err()
		case err != nil:
			return notBuilt, "", nil
		}
		failing, _, err := j.run(ctx, dir, binary, j.limits[i])
		switch {
		case ctx.Err() != nil:
			return "", "", ctx.Err()
		case errors.Is(err, errLimit):
			return timedOut, failing, nil
		case err != nil:
			return killed, failing, nil
		}
	}
	return survived, "", nil
}

// build builds the tests of a directory.
func (j *judge) build(ctx context.Context, dir string, i int, overlay any) (binary string, output []byte, err error) {
	binary = filepath.Join(j.scratch, fmt.Sprintf("tests-%d", i))
	args := []string{"test", "-c", "-o", binary, "-vet=off", "-ldflags=-s -w"}
	if overlay != nil {
		text, err := json.Marshal(overlay)
		if err != nil {
			return "", nil, err
		}
		file := filepath.Join(j.scratch, "overlay.json")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return "", nil, err
		}
		args = append(args, "-overlay", file)
	}
	output, err = execute(ctx, j.p.Module.Dir, buildLimit, "go", append(args, "./"+dir)...)
	return binary, output, err
}

// run runs the tests of a directory until the first failure, and returns its name.
func (j *judge) run(ctx context.Context, dir, binary string, limit time.Duration) (failing string, output []byte, err error) {
	output, err = execute(ctx, filepath.Join(j.p.Module.Dir, filepath.FromSlash(dir)), limit, binary, "-test.failfast", "-test.run="+j.pattern)
	for line := range strings.Lines(string(output)) {
		if name, ok := strings.CutPrefix(line, "--- FAIL: "); ok {
			failing, _, _ = strings.Cut(name, " ")
			break
		}
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			failing = strings.TrimSpace(line)
		}
	}
	return failing, output, err
}

// errLimit means that a command was ended because it took too long.
var errLimit = errors.New("it takes too long")

// execute runs a command with its child processes, and ends them all after the limit.
func execute(ctx context.Context, dir string, limit time.Duration, name string, args ...string) ([]byte, error) {
	limited, cancel := context.WithTimeoutCause(ctx, limit, errLimit)
	defer cancel()
	cmd := exec.CommandContext(limited, name, args...)
	cmd.Dir = dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	if limited.Err() != nil {
		return out.Bytes(), context.Cause(limited)
	}
	return out.Bytes(), err
}

// tail returns the last lines of an output.
func tail(output []byte) []byte {
	const lines = 40
	all := slices.Collect(bytes.Lines(output))
	return bytes.Join(all[max(0, len(all)-lines):], nil)
}
