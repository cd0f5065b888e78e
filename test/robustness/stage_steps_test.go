package robustness

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/routesrv/routesrv/test/robustness/history"
	"github.com/routesrv/routesrv/test/robustness/plan"
	"github.com/routesrv/routesrv/test/robustness/traffic"
)

// Strike applies a fault, and waits for its end.
func (s *Stage) Strike(f plan.Fault) error { return s.world.Strike(s.ctx, f) }

// Apply makes writes.
func (s *Stage) Apply(writes ...traffic.Write) error { return s.write(writes) }

// State returns the objects of the API.
func (s *Stage) State() map[traffic.Key]string { return s.world.API.State() }

// Process is the process of a member.
func (s *Stage) Process(member string) *Process { return s.world.Processes[member] }

// SetMode changes the mode of a sidecar.
func (s *Stage) SetMode(member, mode string) error { return s.world.SetMode(member, mode) }

// Restore restores the API to its state some time ago.
func (s *Stage) Restore(ago time.Duration) error {
	state, err := s.world.API.Restore(ago)
	if err == nil {
		s.traffic.Rewind(state)
	}
	return err
}

// Held returns the last answer from which a client knows its table.
func (s *Stage) Held(client string) history.Answer {
	a, _ := s.rec.Held(client)
	return a
}

// Text returns the text of a received table; empty if there was none.
func (s *Stage) Text(digest string) string { return s.rec.Text(digest) }

// Now returns the time since the start of the run.
func (s *Stage) Now() time.Duration { return s.rec.Now() }

// Ready reports whether a process has a table.
func (s *Stage) Ready(member string) bool {
	p := s.world.Processes[member]
	return p.Running() && p.Ready(http.DefaultClient)
}

// Await waits for a condition. Its limit only decides when to give up.
func (s *Stage) Await(what string, ok func() bool) error {
	for end := time.Now().Add(starting); !ok(); s.Wait(20 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("waited %v for: %s", starting, what)
		}
		if s.ctx.Err() != nil {
			return errors.New("the test is over")
		}
	}
	return nil
}
