package config

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/routesrv/routesrv/guard"
)

// Guard adds --guard, which defines which tables are suspicious. hold is the default of its setting hold: objects are kept longer than
// tables, because nobody else waits.
func (p *Parser) Guard(c *guard.Config, hold time.Duration) {
	c.MaxLoss, c.MaxBackendLoss = guard.DefaultMaxLoss, guard.DefaultMaxBackendLoss
	const day = 24 * time.Hour
	settings := map[string]*value{
		"max-loss":         parsed("share", &c.MaxLoss, "0.5", share),
		"max-backend-loss": parsed("share", &c.MaxBackendLoss, "0.5", share),
		"window":           duration(&c.Window, guard.DefaultWindow, time.Millisecond, day),
		"hold":             duration(&c.Hold, hold, time.Millisecond, day),
		"release":          parsed("auto|manual", &c.Manual, "auto", parseRelease),
		"namespaces":       boolean(&c.Namespaces, false),
		"max-routes":       number(&c.MaxRoutes, 0, 0, math.MaxInt32),
		"max-bytes":        parsed("size", &c.MaxBytes, "0", size),
	}
	p.guardSet = make(map[string]bool)
	set := func(text string) error {
		for one := range strings.SplitSeq(text, ",") {
			name, val, given := strings.Cut(one, "=")
			v := settings[name]
			switch {
			case v == nil:
				return fmt.Errorf("%s: want settings with commas between them, such as hold=2h,release=manual: %s", clip(one),
					strings.Join(slices.Sorted(maps.Keys(settings)), ", "))
			case !given && v.boolean:
				val = "true"
			case !given:
				return fmt.Errorf("%s: want %s=%s", clip(one), name, strings.ToUpper(v.kind))
			}
			if err := v.set(val); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			p.guardSet[name] = true
		}
		return nil
	}
	p.group(GroupGuard).own("guard", repeated("SETTING=VALUE,…", set), fmt.Sprintf("What counts as an accident, and what then happens, as settings with commas "+
		"between them; may be repeated. max-loss=0.5: share of the served pairs of host and path, or hosts, that a new table may lose, also as 50%%. If it loses more, "+
		"or nine tenths of 20 or more Ingresses or RouteGroups, the lost objects are kept as they are served; 1 turns these rules off. "+
		"max-backend-loss=0.5: share of the pairs with endpoints that may lose all of them. If more do, and at least 20, their services keep "+
		"their last endpoints; 1 turns the rule off. window=10m: how long what was lost counts for these shares, so that many small losses count as one. "+
		"hold=%s: how long lost objects are kept, or a whole table where only tables are known, and how long after something last came back. After a table "+
		"that was empty, or had only generated routes where there were others, time releases nothing before nearly all is back. release=auto: what "+
		"releases them, auto (time, or somebody accepts the loss) or manual (only an acceptance); what comes back is released in both cases. "+
		"namespaces: keep the objects of a namespace that lost all its routes, at least 20, while all others together lost at most 5 %%. "+
		"max-routes=0 and max-bytes=0, such as 512MiB: do not serve objects that make the table grow past this; 0 means no limit.", short(hold)))
}

// parseRelease parses the setting release of --guard.
func parseRelease(s string) (manual bool, err error) {
	switch s {
	case "auto":
		return false, nil
	case "manual":
		return true, nil
	}
	return false, fmt.Errorf("%s: want auto or manual", clip(s))
}
