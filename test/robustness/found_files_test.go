package robustness

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/routesrv/routesrv/test/robustness/history"
	"github.com/routesrv/routesrv/test/robustness/plan"
)

// TestKilledWritesLeaveNothingBehind: each process killed while writing its last table left a file, until the volume was full.
func TestKilledWritesLeaveNothingBehind(t *testing.T) {
	play(t, Scenario{
		Members: []history.Member{server("s1", "poll"), poller("p1", "s1")},
		Play: func(s *Stage) error {
			for range 3 {
				kill := plan.Fault{Name: plan.Kill, Link: "s1", Point: plan.WhileWrites, For: 4 * time.Second}
				if err := s.During(kill, func() error { return s.Churn(2 * time.Second) }); err != nil {
					return err
				}
			}
			if err := s.Await("the server to be back", func() bool { return s.Ready("s1") }); err != nil {
				return err
			}
			files, err := os.ReadDir(filepath.Join(s.Process("s1").Folder, "state"))
			if err != nil {
				return err
			}
			temporary := 0
			for _, f := range files {
				if strings.Contains(f.Name(), ".tmp") {
					temporary++
				}
			}
			if temporary > 1 { // one may be in progress
				return fmt.Errorf("%d files are left: %v", temporary, files)
			}
			return nil
		},
	})
}

// TestWhatIsInThePlaceOfTheFileEndsNoStart: a pipe in place of the last table made a server hang before its first log line, and a
// folder made it exit repeatedly, although the API was available.
func TestWhatIsInThePlaceOfTheFileEndsNoStart(t *testing.T) {
	play(t, Scenario{
		Members: []history.Member{server("s1", "poll"), poller("p1", "s1")},
		Play: func(s *Stage) error {
			path := filepath.Join(s.Process("s1").Folder, "state", "table.eskip")
			for _, make := range []func() error{
				func() error { return syscall.Mkfifo(path, 0o600) },
				func() error { return os.MkdirAll(filepath.Join(path, "something"), 0o700) },
				func() error { return os.WriteFile(path, []byte("torn"), 0o600) },
			} {
				p := s.Process("s1")
				p.Kill("")
				p.Gone()
				if err := os.RemoveAll(path); err != nil {
					return err
				}
				if err := make(); err != nil {
					return err
				}
				if err := p.Start(); err != nil {
					return err
				}
				if err := s.Await("a table of the API", func() bool { return s.Ready("s1") }); err != nil {
					return err
				}
			}
			return s.Churn(time.Second)
		},
	})
}
