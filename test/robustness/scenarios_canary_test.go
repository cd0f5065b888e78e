package robustness

import (
	"fmt"
	"net/http"
	"time"

	"github.com/routesrv/routesrv/test/robustness/history"
	"github.com/routesrv/routesrv/test/robustness/traffic"
)

// soaked creates, changes and deletes objects that soak while endpoints move, and halts a version of one.
func soaked(s *Stage) error {
	gone := App("gone", "filters", "10.9.0.3")
	last := gone[len(gone)-1]
	last.Object = ""
	for i, writes := range [][]traffic.Write{
		append(App("first", "filters", "10.9.0.1"), gone...), {filtered("first", "changed", traffic.Valid)}, {last}, App("second", "filters", "10.9.0.2"),
		append(App("bad", "filters", "10.9.0.4"), filtered("bad", "harmful", traffic.Halted)),
	} {
		if err := s.Apply(writes...); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
		if err := s.Move(1500 * time.Millisecond); err != nil {
			return err
		}
	}
	if err := s.halt("s1", "Ingress/bad/filters"); err != nil {
		return err
	}
	if err := s.Move(7 * time.Second); err != nil {
		return err
	}
	return s.Apply(filtered("bad", "fine", traffic.Valid))
}

// halt halts what soaks of an object.
func (s *Stage) halt(member, object string) error {
	r, err := http.NewRequestWithContext(s.ctx, http.MethodPost, "http://pod/steering?order=halt&why=test&object="+object, nil)
	if err != nil {
		return err
	}
	resp, err := s.Process(member).operator().RoundTrip(r)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("halt: %s", resp.Status)
	}
	s.rec.Event(history.Event{At: s.rec.Now(), Member: member, Name: "halt", Args: object})
	return nil
}
