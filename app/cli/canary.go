package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/query"
	"github.com/routesrv/routesrv/shadowdiff"
)

// canaryJob lists soaking changes.
type canaryJob struct{ noFlags }

func (canaryJob) run(ctx context.Context, s *session) (int, error) {
	replies := ask(ctx, s, s.clusters, askStatus)
	judge := func(_ int, r query.Reply[*serverStatus]) documentCluster {
		status := Healthy
		for _, a := range r.Answers {
			switch {
			case a.Err != nil:
				status = Trouble
			case a.Value.said.Canary != nil:
				v := a.Value.said.Canary.Verdict
				status = max(status, verdict(a.Value.said.Canary.Halted == 0 && (v == nil || !v.Firing && !v.Failed)))
			}
		}
		return outline(r, status)
	}
	return conclude(s, "canary", replies, judge, func() error {
		for _, r := range replies {
			for _, g := range agreeing(r, soakingKey) {
				if err := s.writeCanary(r.Cluster, g); err != nil {
					return err
				}
			}
			writeLines(s.std.Err, r.Missing())
		}
		return nil
	})
}

// soakingKey is equal for replicas with the same soaking changes and the same end.
func soakingKey(st *serverStatus) string {
	if st.said.Canary == nil {
		return ""
	}
	key := st.said.Canary.Query
	for _, o := range st.said.Canary.Objects {
		key += fmt.Sprint("\x00", o.Ref, o.Until.Unix(), o.Halted)
	}
	return key
}

// writeCanary prints the soaking changes of replicas.
func (s *session) writeCanary(cluster string, g *agreement[*serverStatus]) error {
	c, where := g.value.said.Canary, query.Label(cluster, "")
	if c == nil {
		writeLines(s.std.Out, []string{where + "no canary: --canary is not set"})
		return nil
	}
	table := &grid{}
	s.row(table, "CONTEXT", []string{"OBJECT", "CHANGED", "SINCE", "FOR THE FLEET"})
	for _, o := range c.Objects {
		until := o.Until.UTC().Format(time.RFC3339)
		switch {
		case o.Halted != "":
			until = "halted by " + o.By + ": " + o.Halted
		case o.Capped:
			until += ", since it keeps changing"
		}
		s.row(table, cluster, []string{o.Ref.String(), o.Detail, s.since(o.Since), until})
	}
	if len(c.Objects) > 0 {
		if err := table.write(s.std.Out); err != nil {
			return err
		}
	}
	lines := []string{where + shadowdiff.Plural(c.Count, "object") + " on the canary" + nextPromotion(c, s.now())}
	switch v := c.Verdict; {
	case c.Query == "":
	case v == nil:
		lines = append(lines, "the query was not asked yet: "+c.Query)
	case v.Failed:
		lines = append(lines, "the query is not answered, so soaks are extended: "+v.Text)
	case v.Firing:
		lines = append(lines, "the query fires, so nothing is promoted: "+v.Text)
	default:
		lines = append(lines, "the query returned "+v.Text+" "+s.since(v.At)+" ago")
	}
	writeLines(s.std.Out, lines)
	return nil
}

func nextPromotion(c *api.Canary, now time.Time) string {
	if c.NextPromotion.IsZero() {
		return ""
	}
	return ", next promotion in " + age(c.NextPromotion.Sub(now))
}
