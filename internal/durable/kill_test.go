package durable_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// TestKilledWritesLeaveOneFile kills a process in the middle of a write, again and again.
func TestKilledWritesLeaveOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table.eskip")
	if err := durable.WriteFile(path, content("whole")); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		kill, said := startHalfWriter(t, path)
		kill()
		if said != "half" {
			t.Fatalf("the process said %q", said)
		}
		if got := read(t, path); got != "whole" {
			t.Fatalf("got %q, want the old content", got)
		}
	}
	if diff := cmp.Diff([]string{".table.eskip.tmp", "table.eskip"}, names(t, path)); diff != "" {
		t.Errorf("files after ten killed writes (-want +got):\n%s", diff)
	}
	if n := durable.Tidy(path); n != 1 {
		t.Errorf("%d files removed, want one", n)
	}
	if diff := cmp.Diff([]string{"table.eskip"}, names(t, path)); diff != "" {
		t.Errorf("files afterwards (-want +got):\n%s", diff)
	}
}

// TestTwoProcessesNeverMixTheirContents: the second process gets an error, and the first continues.
func TestTwoProcessesNeverMixTheirContents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table.eskip")
	kill, said := startHalfWriter(t, path)
	defer kill()
	if said != "half" {
		t.Fatalf("the process said %q", said)
	}
	if err := durable.WriteFile(path, content("mine")); !errors.Is(err, durable.ErrBusy) {
		t.Errorf("error %v, want %v", err, durable.ErrBusy)
	}
	if n := durable.Tidy(path); n != 0 {
		t.Errorf("%d files removed while they were written", n)
	}
	kill()
	if err := durable.WriteFile(path, content("mine")); err != nil {
		t.Errorf("after its end: %v", err)
	}
	if got := read(t, path); got != "mine" {
		t.Errorf("got %q", got)
	}
}

func TestTidyRemovesWhatEarlierVersionsLeft(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "table.eskip")
	old := time.Now().Add(-time.Hour)
	for name, at := range map[string]time.Time{
		".table.eskip123456": old, ".table.eskip1": old, ".table.eskip77": time.Now(), // the last may be in use
		".table.eskip": old, ".table.eskip12x": old, ".other.eskip123": old, "table.eskip": old, "table.eskip.bad": old,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(filepath.Join(dir, name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	if n := durable.Tidy(path); n != 2 {
		t.Errorf("%d files removed, want 2", n)
	}
	want := []string{".other.eskip123", ".table.eskip", ".table.eskip12x", ".table.eskip77", "table.eskip", "table.eskip.bad"}
	if diff := cmp.Diff(want, names(t, path)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}
