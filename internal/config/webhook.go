package config

// DefaultWebhookAddress is the default main listener of a webhook.
const DefaultWebhookAddress = ":9443"

// ParseWebhook is [ParseRouteServer] for the webhook command. It always serves TLS, so the settings must name a certificate. The
// default address is [DefaultWebhookAddress].
func ParseWebhook(args []string, env Env) (*RouteServer, []Warning, error) {
	var c RouteServer
	p := NewRouteServer(Command{Name: "routesrv webhook", Skipper: true}, &c)
	p.take = func([]string) { // before the settings are checked
		if len(c.TLS.CertFiles) == 0 {
			p.failf("tls-cert", "API servers talk to webhooks by TLS only: set -tls-cert and -tls-key")
		} else {
			c.TLS.Enable = true
			p.Derive("enable-tls", "true", "routesrv webhook")
		}
		if !p.isSet("address") {
			c.Listen.Address = DefaultWebhookAddress
			p.Derive("address", DefaultWebhookAddress, "routesrv webhook")
		}
		if len(c.Upstream.URLs) > 0 {
			p.failf("upstream", "a webhook reads the objects itself: set -kubernetes instead")
		}
	}
	p.check(func() { p.requireSource(&c) })
	return parsed(&c, p, args, env)
}
