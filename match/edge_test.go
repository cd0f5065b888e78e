package match_test

import (
	"strings"
	"testing"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/match"
)

// TestEdgesOfRequests: requests that the HTTP server, or the libraries of a proxy, treat in their own way.
func TestEdgesOfRequests(t *testing.T) {
	lines := func(name string, lines ...string) map[string][]string { return map[string][]string{name: lines} }
	for _, c := range []struct {
		name, routes string
		request      match.Request
		options      match.Options
		want         string // the id of the route, or the status of the proxy
	}{
		{name: "an escape of an unreserved character", routes: `a: Path("/i/:id") -> <shunt>`, want: "a",
			request: match.Request{Target: "/i/a%2Fb%41%20%C3%A9"}, options: match.Options{RFCPatchPath: true}},
		{name: "lower-case digits", routes: `a: Path("/i/:id") -> <shunt>`, want: "a",
			request: match.Request{Target: "/i/a%2fb%7e"}, options: match.Options{RFCPatchPath: true}},
		{name: "dots are decoded", routes: `a: Path("/i/x%2Fy") -> <shunt>`, want: "a",
			request: match.Request{Target: "/q/%2e%2e/i/x%2Fy"}, options: match.Options{RFCPatchPath: true}},
		{name: "nothing reserved", routes: `a: Path("/i/a b") -> <shunt>`, want: "a",
			request: match.Request{Target: "/i/a%20b"}, options: match.Options{RFCPatchPath: true}},

		{name: "malformed members are skipped", routes: `a: OTelBaggage("k", "v") -> <shunt>`, want: "a",
			request: match.Request{Header: lines("Baggage", `x, "q"=1, y="quoted", k=v;p=1;q, z=%zz`)}},
		{name: "all lines", routes: `a: OTelBaggage("k", "v") -> <shunt>`, want: "a",
			request: match.Request{Header: lines("baggage", "x=1", "k=v")}},
		{name: "a quoted value", routes: `a: OTelBaggage("k") -> <shunt>`, request: match.Request{Header: lines("Baggage", `k="v"`)}},
		{name: "a space inside of a value", routes: `a: OTelBaggage("k") -> <shunt>`, request: match.Request{Header: lines("Baggage", `k=a b`)}},
		{name: "a malformed property", routes: `a: OTelBaggage("k") -> <shunt>`, request: match.Request{Header: lines("Baggage", `k=v;a b=1`)}},
		{name: "an escaped value", routes: `a: OTelBaggage("k", "a b") -> <shunt>`, want: "a", request: match.Request{Header: lines("Baggage", `k = a%20b `)}},

		{name: "an address with a zone", routes: `a: Source("10.0.0.0/8", "fe80::/10") -> <shunt>`,
			request: match.Request{RemoteAddr: "10.1.1.1:1", Header: lines("X-Forwarded-For", "fe80::1%eth0")}},
		{name: "the same with a port", routes: `a: Source("10.0.0.0/8", "fe80::/10") -> <shunt>`,
			request: match.Request{RemoteAddr: "10.1.1.1:1", Header: lines("X-Forwarded-For", "[fe80::1%eth0]:80")}},
		{name: "the last address has a zone", routes: `a: SourceFromLast("10.0.0.0/8") -> <shunt>`,
			request: match.Request{RemoteAddr: "10.1.1.1:1", Header: lines("X-Forwarded-For", "10.2.2.2, fe80::1%eth0")}},
		{name: "no address", routes: `a: Source("10.0.0.0/8") -> <shunt>`, want: "a",
			request: match.Request{RemoteAddr: "10.1.1.1:1", Header: lines("X-Forwarded-For", "unknown")}},
		{name: "a connection with a zone", routes: `a: ClientIP("fe80::/10") -> <shunt>`, request: match.Request{RemoteAddr: "[fe80::1%eth0]:80"}},

		{name: "an empty subtree and a path", routes: `a: PathSubtree("") && Path("/x") -> <shunt>`, request: match.Request{Target: "/x"}},
		{name: "two empty subtrees", routes: `a: PathSubtree("") && PathSubtree("") -> <shunt>`, request: match.Request{Target: "/x"}},
		{name: "an empty subtree alone", routes: `a: PathSubtree("") -> <shunt>`, want: "a", request: match.Request{Target: "/x"}},

		{name: "a malformed host beside an absolute target", routes: `a: * -> <shunt>`, want: "400",
			request: match.Request{Target: "http://a.example.org/", Host: "a b"}},
		{name: "a malformed host beside CONNECT", routes: `a: * -> <shunt>`, want: "400",
			request: match.Request{Method: "CONNECT", Target: "a.example.org:443", Host: "user@b"}},
		{name: "an empty host beside an absolute target", routes: `a: Host("^a[.]example[.]org$") -> <shunt>`, want: "a",
			request: match.Request{Target: "http://a.example.org/"}},
	} {
		table, _ := match.New(eskip.MustParse(c.routes), c.options)
		got := []string{}
		res := table.Find(c.request)
		if res.Answer != nil && res.Answer.Status == 400 {
			got = append(got, "400")
		}
		for _, o := range res.Outcomes {
			if o.Route != nil {
				got = append(got, o.Route.Id)
			}
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: %q, want %q", c.name, text, c.want)
		}
	}
}
