package config

import (
	"fmt"
	"log/slog"
	"math"
	"net"
	"strings"
	"time"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/internal/httpserve"
)

// Defaults of the listeners. With manifests and without explicit addresses, the server binds only the loopback interface: that is
// a trial on somebody's machine, and other machines should not see it.
const (
	DefaultAddress         = ":9090"
	DefaultSupportAddress  = ":9911"
	DefaultMaxConnections  = 20_000
	DefaultMaxStreams      = 10_000
	LoopbackAddress        = "127.0.0.1:9090"
	LoopbackSupportAddress = "127.0.0.1:9911"
)

// wholeSeconds parses --cache-max-age.
func wholeSeconds(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d > time.Hour || d%time.Second != 0 {
		return 0, fmt.Errorf("%s: want whole seconds with their unit, such as 3s, from 0s to 1h", clip(s))
	}
	return d, nil
}

// Listen adds the flags of the listeners and of shutdown.
func (p *Parser) Listen(c *Listen, s *Source) {
	g := p.Group(GroupListen)
	g.Skipper("address", Text("HOST:PORT", &c.Address, DefaultAddress, address), "Main listener. The default with "+
		"--manifests is "+LoopbackAddress+".")
	g.Skipper("support-listener", Address(&c.SupportAddress, DefaultSupportAddress), "Listener for metrics and status, always without TLS; "+
		"empty turns it off. The default with --manifests is "+LoopbackSupportAddress+".")
	g.Skipper("wait-for-healthcheck-interval", Duration(&c.WaitForHealthcheckInterval, 45*time.Second, 0, day), "How long to keep "+
		"serving after the signal to stop, until load balancers send no more requests.")
	g.Own("max-connections", Number(&c.MaxConnections, DefaultMaxConnections, 16, math.MaxInt32), "Maximum number of "+
		"connections of the main listener, or the limit of open files (ulimit -n) minus 128 if that is less: the rest is for "+
		"the support listener, the source and files. A full listener closes the connection that has been idle for longest.")
	g.Own("max-streams", Number(&c.MaxStreams, DefaultMaxStreams, 0, math.MaxInt32), "Maximum number of clients that follow "+
		"the table on /routes/watch; one more gets 429. 0 turns streams off.")
	p.Debounce(GroupListen, &c.EndpointDebounce)
	g.Own("cache-max-age", Parsed("duration", &c.SharedMaxAge, "0s", wholeSeconds), "How long an HTTP cache between servers and proxies may "+
		"serve an answer without asking again, in whole seconds. For the same time after that it may serve the answer while it asks, and for a "+
		"day while no server answers. 0 makes caches ask for each request (Cache-Control: no-cache).")
	p.Profile(&c.EnableProfile)
	g.Skipper("block-profile-rate", Number(&c.BlockProfileRate, 0, 0, math.MaxInt32), "Rate of the blocking profile, in "+
		"nanoseconds per sample; 0 is off.")
	g.Skipper("mutex-profile-fraction", Number(&c.MutexProfileFraction, 0, 0, math.MaxInt32), "Fraction of the mutex profile: "+
		"one of this many events is sampled; 0 is off.")
	g.Skipper("memory-profile-rate", Number(&c.MemProfileRate, 0, 0, math.MaxInt32), "Rate of the memory profile, in bytes per "+
		"sample; 0 keeps the default of the Go runtime.")
	p.check(func() { p.checkListen(c, s) })
}

// Debounce adds the flag that lets changes wait.
func (p *Parser) Debounce(g Group, dst *time.Duration) {
	p.Group(g).Own("endpoint-debounce", Duration(dst, 0, 0, time.Hour), "How long a change may wait that only adds endpoints to routes that already have some. "+
		"It waits for similar changes, or for the next change of another kind, and is served with them: each changed table costs every proxy as much as its "+
		"first. Removed endpoints and changed objects never wait. 0 serves every change at once.")
}

// Profile adds the flag that serves profiles.
func (p *Parser) Profile(enable *bool) {
	p.Group(GroupListen).Skipper("enable-profile", Bool(enable, false), "Serve profiles under /debug/pprof on the support listener.")
}

func (p *Parser) checkListen(c *Listen, s *Source) {
	if len(s.Manifests) > 0 && !p.isSet("address") {
		c.Address = LoopbackAddress
		p.Derive("address", c.Address, "--manifests")
	}
	if len(s.Manifests) > 0 && !p.isSet("support-listener") {
		c.SupportAddress = LoopbackSupportAddress
		p.Derive("support-listener", c.SupportAddress, "--manifests")
	}
	if c.SupportAddress == "" {
		p.warn("support-listener", "is empty: there are no metrics and no status")
		return
	}
	if _, port, err := net.SplitHostPort(c.Address); err == nil && port != "0" && c.Address == c.SupportAddress {
		p.failf("support-listener", "%s is also -address: want another port", clip(c.SupportAddress))
	}
}

// TLS adds the flags that protect the main listener.
func (p *Parser) TLS(c *httpserve.TLSConfig) {
	g := p.Group(GroupTLS)
	g.Own("enable-tls", Bool(&c.Enable, false), "Serve TLS on the main listener, with -tls-cert and -tls-key, without "+
		"asking for client certificates.")
	g.Skipper("enable-mtls", Bool(&c.RequireClientCert, false), "Serve TLS on the main listener, and require client certificates, even "+
		"for /health.")
	g.Skipper("tls-cert", List(&c.CertFiles), "Files with the certificates, PEM, separated by commas.")
	g.Skipper("tls-key", List(&c.KeyFiles), "Files with their keys, in the same order.")
	c.MinVersion, _ = parseTLSVersion("1.2")
	g.Skipper("tls-min-version", Parsed("version", &c.MinVersion, "1.2", parseTLSVersion), "Minimum version of TLS: 1.0, 1.1, "+
		"1.2 or 1.3.")
	g.Skipper("mtls-authn-ca", List(&c.CAFiles), "Files with the CAs of client certificates, PEM, separated by commas.")
	g.Skipper("mtls-authn-append-ca", Bool(&c.AppendSystemCAs, false), "Accept the CAs of the system, too.")
	p.check(func() { p.checkTLS(c) })
}

func (p *Parser) checkTLS(c *httpserve.TLSConfig) {
	asked := "enable-tls"
	if c.RequireClientCert {
		asked, c.Enable = "enable-mtls", true
		p.Derive("enable-tls", "true", "-enable-mtls")
	}
	for _, files := range []struct {
		flag  string
		names []string
	}{{"tls-cert", c.CertFiles}, {"tls-key", c.KeyFiles}, {"mtls-authn-ca", c.CAFiles}} {
		for i, name := range files.names {
			if strings.TrimSpace(name) == "" {
				p.failf(files.flag, "element %d is empty: want names of files with commas between them", i+1)
			}
		}
	}
	switch {
	case len(c.CertFiles) != len(c.KeyFiles):
		p.failf("tls-key", "%d keys for %d certificates of -tls-cert: want one for each", len(c.KeyFiles), len(c.CertFiles))
	case c.Enable && len(c.CertFiles) == 0:
		p.failf(asked, "needs -tls-cert and -tls-key")
	case !c.Enable && len(c.CertFiles) > 0:
		p.warn("tls-cert", "the main listener is plain HTTP all the same, as in Skipper's route server: for TLS set "+
			"--enable-tls, or -enable-mtls to require client certificates, too")
	}
	switch {
	case c.RequireClientCert && len(c.CAFiles) == 0 && !c.AppendSystemCAs:
		p.failf("enable-mtls", "needs the authorities for client certificates: -mtls-authn-ca or -mtls-authn-append-ca")
	case !c.RequireClientCert && len(c.CAFiles) > 0:
		p.warn("mtls-authn-ca", "no client certificate is asked for without -enable-mtls")
	case !c.RequireClientCert && c.AppendSystemCAs:
		p.warn("mtls-authn-append-ca", "no client certificate is asked for without -enable-mtls")
	}
}

// tokenFilters are name prefixes of filters that call a token service.
var tokenFilters = []string{"oauthTokeninfo", "oauthTokenintrospection", "secureOauthTokenintrospection"}

// RequestFilters adds the flag with the filters for requests to the main listener.
func (p *Parser) RequestFilters(dst *[]*eskip.Filter) {
	const name = "route-server-filters"
	g := p.Group(GroupTLS)
	g.Skipper(name, Parsed("filters", dst, "", parseFilters), "Filters for all requests to the main listener except those for "+
		"/health, such as mtlsAuthn() -> mtlsCN(\"proxy\").")
	p.check(func() {
		for _, f := range *dst {
			for _, prefix := range tokenFilters {
				if strings.HasPrefix(f.Name, prefix) {
					p.failf(name, "filter %s is not supported, as no token service is asked here: to know who asks, require client "+
						"certificates (-enable-mtls, -mtls-authn-ca and the filters mtlsAuthn() -> mtlsCN(\"NAME\")), or let only "+
						"the proxies in with a NetworkPolicy", printable(f.Name))
				}
			}
		}
	})
}

// Shards adds the flags that name the services of shared rate limits.
func (p *Parser) Shards(s *Shards) {
	g := p.Group(GroupShards)
	for _, c := range []struct {
		store string
		dst   *Shard
	}{{"redis", &s.Redis}, {"valkey", &s.Valkey}} {
		prefix := "kubernetes-" + c.store + "-service-"
		g.Skipper(prefix+"namespace", Text("string", &c.dst.Namespace, ""), fmt.Sprintf("Namespace of the service whose addresses are "+
			"served under /swarm/%s/shards, for the rate limits that proxies share.", c.store))
		g.Skipper(prefix+"name", Text("string", &c.dst.Name, ""), "Name of that service.")
		g.Skipper(prefix+"port", Number(&c.dst.Port, 6379, 1, 65535), "Port of its addresses.")
		p.check(func() {
			switch {
			case c.dst.Namespace != "" && c.dst.Name == "":
				p.warn(prefix+"namespace", "has no effect without -%sname", prefix)
			case c.dst.Namespace == "" && c.dst.Name != "":
				p.warn(prefix+"name", "has no effect without -%snamespace", prefix)
			}
		})
	}
}

// Log adds the flags of the log.
func (p *Parser) Log(l *Log) {
	l.Level = slog.LevelInfo
	g := p.Group(GroupLogging)
	g.Skipper("application-log-level", Parsed("level", &l.Level, "INFO", parseLevel), "Minimum log level: TRACE, DEBUG, INFO, "+
		"WARN, ERROR, FATAL or PANIC.")
	g.Skipper("application-log-json-enabled", Bool(&l.JSON, false), "Log JSON, one object on each line.")
}

// StateDir adds the flag of the state folder.
func (p *Parser) StateDir(dir *string) {
	g := p.Group(GroupState)
	g.Own("state-dir", Text("string", dir, ""), "Folder of the last-known-good file, a copy of the served table (of dataplane-client: the last one that its proxy has lived with). A process that restarts while its "+
		"source or route servers are unreachable serves the copy at once, marked as stale. The folder also has the record of guard "+
		"decisions and the control socket; it is created if it is missing. Empty keeps nothing.")
}
