// Package clock builds programs with a wall clock that a test can step. Containers and namespaces have no separate wall clock,
// and stepping the machine's clock would affect everybody. So the programs are built with an additional file in package time: the
// wall clock of [time.Now] follows a number in a file, while the monotonic clock, which timers use, is unchanged.
package clock

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Variable is the environment variable with the name of the file that contains a program's step. Without it, or while the file
// does not exist, the clock is correct.
const Variable = "ROUTESRV_TEST_CLOCK"

//go:embed stepped.go.txt
var stepped []byte

// The change in package time.
const (
	before = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	after  = before + "\tsec += stepped.Load()\n"
)

// Overlay writes the changed files of package time to an existing folder, and returns the overlay for go build. It returns an
// error if this version of Go reads its clock in another way.
func Overlay(ctx context.Context, folder string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", "time").Output()
	if err != nil {
		return "", fmt.Errorf("find package time: %w", err)
	}
	dir := strings.TrimSpace(string(out))
	original := filepath.Join(dir, "time.go")
	text, err := os.ReadFile(original)
	if err != nil {
		return "", fmt.Errorf("read package time: %w", err)
	}
	if n := strings.Count(string(text), before); n != 1 {
		return "", fmt.Errorf("%s reads the clock %d times where one is expected: %q", original, n, before)
	}
	replace := make(map[string]string)
	for name, content := range map[string][]byte{
		"time.go": []byte(strings.Replace(string(text), before, after, 1)), "stepped.go": stepped,
	} {
		to := filepath.Join(folder, "clock-"+name)
		if err := os.WriteFile(to, content, 0o600); err != nil {
			return "", fmt.Errorf("overlay: %w", err)
		}
		replace[filepath.Join(dir, name)] = to
	}
	content, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", fmt.Errorf("overlay: %w", err)
	}
	name := filepath.Join(folder, "clock.json")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		return "", fmt.Errorf("overlay: %w", err)
	}
	return name, nil
}

// Step sets how much the clock of programs that follow a file is ahead, or behind if by is negative. They notice within some tens
// of milliseconds. Steps are whole seconds.
func Step(file string, by time.Duration) error {
	next := file + ".next"
	if err := os.WriteFile(next, []byte(strconv.FormatInt(int64(by/time.Second), 10)), 0o600); err != nil {
		return fmt.Errorf("step the clock: %w", err)
	}
	if err := os.Rename(next, file); err != nil {
		return fmt.Errorf("step the clock: %w", err)
	}
	return nil
}
