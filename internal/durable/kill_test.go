package durable_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/internal/durable"
)

// halfWriter turns the test binary into a process that writes half of a file, reports that and waits to be killed.
const halfWriter = "DURABLE_TEST_HALF_WRITER"

func TestMain(m *testing.M) {
	if path := os.Getenv(halfWriter); path != "" {
		err := durable.WriteFile(path, func(w io.Writer) error {
			if _, err := io.WriteString(w, "half of the "); err != nil {
				return err
			}
			fmt.Println("half")
			_, err := io.Copy(io.Discard, os.Stdin) // until it is killed
			return err
		})
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// startHalfWriter starts such a process. It returns when the process is in the middle of its write, or has failed: then with its
// output.
func startHalfWriter(t *testing.T, path string) (kill func(), said string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), halfWriter+"="+path)
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
	said, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		_ = cmd.Process.Kill() // SIGKILL
		_ = cmd.Wait()
		_ = in.Close()
	}, strings.TrimSpace(said)
}

// TestKilledWriteLeavesOneFile: the next start removes it.
func TestKilledWriteLeavesOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table.eskip")
	if err := durable.WriteFile(path, content("whole")); err != nil {
		t.Fatal(err)
	}
	kill, said := startHalfWriter(t, path)
	kill()
	if said != "half" {
		t.Fatalf("the process said %q", said)
	}
	if got := read(t, path); got != "whole" {
		t.Fatalf("got %q, want the old content", got)
	}
	if got := names(t, path); len(got) != 2 || !strings.HasPrefix(got[0], ".table.eskip.tmp") {
		t.Errorf("files %q, want one beside the target", got)
	}
	for _, foreign := range []string{".table.eskip.tmp.old", ".table.eskip.state.tmp1"} {
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), foreign), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	durable.Tidy(path)
	if diff := cmp.Diff([]string{".table.eskip.state.tmp1", ".table.eskip.tmp.old", "table.eskip"}, names(t, path)); diff != "" {
		t.Errorf("files afterwards (-want +got):\n%s", diff)
	}
}

// TestTwoProcessesNeverMixTheirContents: each process writes its own temporary file.
func TestTwoProcessesNeverMixTheirContents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table.eskip")
	kill, said := startHalfWriter(t, path)
	defer kill()
	if said != "half" {
		t.Fatalf("the process said %q", said)
	}
	if err := durable.WriteFile(path, content("mine")); err != nil {
		t.Error(err)
	}
	kill()
	if got := read(t, path); got != "mine" {
		t.Errorf("got %q", got)
	}
}
