package robustness_test

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/routesrv/routesrv/robustness"
	"github.com/routesrv/routesrv/robustness/plan"
	"github.com/routesrv/routesrv/robustness/validate"
	"github.com/routesrv/routesrv/robustness/world"
)

var binaries world.Binaries

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "robustness")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	out, err := exec.Command("go", "build", "-race", "-o", dir, "../cmd/routesrv", "../cmd/dataplane-client").CombinedOutput()
	if err != nil {
		fmt.Fprintf(os.Stderr, "build: %v: %s", err, out)
		os.Exit(1)
	}
	binaries = world.Binaries{Routesrv: filepath.Join(dir, "routesrv"), Dataplane: filepath.Join(dir, "dataplane-client")}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func TestShort(t *testing.T) {
	p := plan.New(1, plan.Size{
		Storm: 15 * time.Second, Servers: 2, Relays: 1, Sidecars: 3, Pollers: 30, Deltas: 6, Streams: 6, Every: 300 * time.Millisecond,
	})
	dir := t.TempDir()
	h, err := robustness.Run(t.Context(), robustness.Config{
		Plan: p, Binaries: binaries, Folder: dir, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		t.Error(err)
	}
	if h != nil {
		if keep := os.Getenv("ROBUSTNESS_KEEP"); keep != "" {
			if err := h.Save(keep); err != nil {
				t.Error(err)
			}
		}
		t.Log(robustness.Outcomes(h))
		begin := time.Now()
		for i, v := range validate.All(h) {
			if i < 40 {
				t.Error(v)
			}
		}
		t.Log("validated in", time.Since(begin))
		t.Logf("%d changes, %d reads, %d faults, %d events, %d answers, %d tables, settled %v after calm", len(h.Changes), len(h.Reads),
			len(h.Faults), len(h.Events), len(h.Answers), len(h.Tables), h.Run.Settled-h.Run.Calm)
	}
}
