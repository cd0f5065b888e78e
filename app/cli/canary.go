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
	head := []string{"OBJECT", "CHANGED", "SINCE", "FOR THE FLEET"}
	return tabulate(s, "canary", head, ask(ctx, s, s.clusters, askStatus), func(_ int, r query.Reply[*serverStatus], one *reported) int {
		status := silent(r)
		for _, a := range r.Answered() {
			if c := a.Value.said.Canary; c != nil {
				status = max(status, verdict(c.Halted == 0 && (c.Verdict == nil || !c.Verdict.Firing && !c.Verdict.Failed)))
			}
		}
		for _, g := range agreeing(r, soakingKey) {
			describeCanary(s, g.value.said.Canary, one)
		}
		return status
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

// describeCanary adds the soaking changes of replicas.
func describeCanary(s *session, c *api.Canary, one *reported) {
	if c == nil {
		one.note("", "no canary: --canary is not set")
		return
	}
	for _, o := range c.Objects {
		until := o.Until.UTC().Format(time.RFC3339)
		switch {
		case o.Halted != "":
			until = "halted by " + o.By + ": " + o.Halted
		case o.Capped:
			until += ", since it keeps changing"
		}
		one.rows = append(one.rows, []string{o.Ref.String(), o.Detail, s.since(o.Since), until})
	}
	one.note("", shadowdiff.Plural(c.Count, "object")+" on the canary"+nextPromotion(c, s.now()))
	switch v := c.Verdict; {
	case c.Query == "":
	case v == nil:
		one.note("", "the query was not asked yet: "+c.Query)
	case v.Failed:
		one.note("", "the query is not answered, so soaks are extended: "+v.Text)
	case v.Firing:
		one.note("", "the query fires, so nothing is promoted: "+v.Text)
	default:
		one.note("", "the query returned "+v.Text+" "+s.since(v.At)+" ago")
	}
}

func nextPromotion(c *api.Canary, now time.Time) string {
	if c.NextPromotion.IsZero() {
		return ""
	}
	return ", next promotion in " + age(c.NextPromotion.Sub(now))
}
