package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/routesrv/routesrv/shadowdiff"
)

// follow compares two tables until it is interrupted. It prints a difference when it has lasted longer than skew explains, and again
// when it is resolved. It prints an error only when it differs from the previous one.
func (j *diffJob) follow(ctx context.Context, s *session) (int, error) {
	tracker := shadowdiff.NewTracker(shadowdiff.TrackerConfig{Interval: j.interval})
	tick := time.NewTicker(j.interval)
	defer tick.Stop()
	status, lastError := Trouble, ""
	var last *shadowdiff.View
	for {
		views, err := j.compare(ctx, s)
		switch {
		case ctx.Err() != nil: // interrupted: the tables loaded meanwhile may be incomplete
		case err != nil:
			if status = Trouble; err.Error() != lastError {
				for _, e := range unjoined(err) {
					fmt.Fprintf(s.std.Err, "%s diff: %s\n", s.program.Name, shadowdiff.Printable(e.Error()))
				}
			}
			lastError = err.Error()
		default:
			view := views[0]
			status, lastError = statusOfViews(views[:1]), ""
			o := tracker.Observe(view.Report, shadowdiff.Meta{
				RevisionA: view.A.Revision, RevisionB: view.B.Revision, ReadA: view.A.Read, ReadB: view.B.Read, Now: view.At,
			})
			view.Watch, last = &o, view
			if err := j.writeNews(s, &o); err != nil {
				return Trouble, fmt.Errorf("print the news: %w", err)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			if last != nil && s.output == "text" {
				fmt.Fprintln(s.std.Out, last.Summary())
			}
			return status, nil
		}
	}
}

// writeNews prints what is new in an observation compared with the previous ones.
func (j *diffJob) writeNews(s *session, o *shadowdiff.Observation) error {
	owners := j.compiler.owners()
	for _, event := range []struct {
		name string
		of   []shadowdiff.Tracked
	}{{"new", o.New}, {"gone", o.Gone}} {
		for _, e := range event.of {
			if s.output == "json" {
				if err := shadowdiff.WriteEntryJSON(s.std.Out, e, owners, event.name, o.Now); err != nil {
					return err
				}
				continue
			}
			if _, err := fmt.Fprintf(s.std.Out, "%s %s: %s\n", o.Now.UTC().Format(time.RFC3339), event.name,
				shadowdiff.Printable(owners.Of(e.ID).String())); err != nil {
				return err
			}
			if err := shadowdiff.WriteEntry(s.std.Out, e, j.options(s)); err != nil {
				return err
			}
		}
	}
	return nil
}
