package clock_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/routesrv/routesrv/test/robustness/clock"
)

// program prints the time on request, as wall clock and as time since its start.
const program = `package main

import (
	"bufio"
	"fmt"
	"os"
	"time"
)

func main() {
	begin := time.Now()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		now := time.Now()
		fmt.Println(now.Unix(), int64(now.Sub(begin).Seconds()))
	}
}
`

// TestTheWallClockSteps forward and back, while elapsed time does not.
func TestTheWallClockSteps(t *testing.T) {
	dir := t.TempDir()
	source, binary, file := filepath.Join(dir, "main.go"), filepath.Join(dir, "program"), filepath.Join(dir, "step")
	if err := os.WriteFile(source, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	overlay, err := clock.Overlay(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-overlay", overlay, "-o", binary, source).CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, out)
	}
	cmd := exec.Command(binary)
	cmd.Env = append(os.Environ(), clock.Variable+"="+file)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = in.Close()
		_ = cmd.Wait()
	}()
	words := bufio.NewScanner(out)
	words.Split(bufio.ScanWords)
	ask := func() (ahead time.Duration, since int64) {
		t.Helper()
		if _, err := in.Write([]byte("\n")); err != nil {
			t.Fatal(err)
		}
		var n [2]int64
		for i := range n {
			if !words.Scan() {
				t.Fatal("the program has ended")
			}
			if n[i], err = strconv.ParseInt(words.Text(), 10, 64); err != nil {
				t.Fatal(err)
			}
		}
		return time.Until(time.Unix(n[0], 0)), n[1]
	}
	begin := time.Now()
	for _, by := range []time.Duration{0, time.Hour, -24 * time.Hour, 0} {
		if err := clock.Step(file, by); err != nil {
			t.Fatal(err)
		}
		deadline := time.Now().Add(time.Minute)
		for {
			ahead, since := ask()
			if passed := int64(time.Since(begin).Seconds()); since < 0 || since > passed {
				t.Fatalf("with a step of %v, %d s have passed for the program and %d s here", by, since, passed)
			}
			if (ahead - by).Abs() < 30*time.Second {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("a step of %v: the clock is %v ahead", by, ahead)
			}
		}
	}
}
