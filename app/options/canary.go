package options

import (
	"net/url"
	"time"
)

// Canary says how long changes are served to the canary alone, and which query judges them.
type Canary struct {
	Soak time.Duration // 0 means that nothing soaks
	// Query is an alert expression, and Prometheus the server that is asked; both or none are set.
	Query      string
	Prometheus *url.URL
}

// Canary adds the flags of the canary.
func (p *Parser) Canary(c *Canary) {
	p.Flag("canary", Duration(&c.Soak, 0, 0, 24*time.Hour))
	p.Flag("canary-query", Text("PROMQL", &c.Query, ""))
	p.Flag("prometheus", Parsed("URL", &c.Prometheus, "", ListenerURL))
	p.check(func() {
		switch {
		case (c.Query == "") != (c.Prometheus == nil):
			p.failf("canary-query", "must be set together with --prometheus")
		case c.Query != "" && c.Soak == 0:
			p.failf("canary-query", "needs --canary")
		}
	})
}
