package page_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/shadowdiff"
)

// The tables of the sample: each kind of difference, and text of an attacker.
const (
	sampleA = `
kube_rg__shop__cart__all__0_0: Host("^(www[.]example[.]org[.]?(:[0-9]+)?)$") && PathSubtree("/cart")
	-> setRequestHeader("X-Shop", "cart") -> clusterRatelimit("cart", 100, "1m") -> setPath("/v1/cart")
	-> <roundRobin, "http://10.2.0.11:8080?zone=eu-1a", "http://10.2.0.12:8080?zone=eu-1b", "http://10.2.0.13:8080?zone=eu-1b",
	"http://10.2.0.14:8080", "http://10.2.0.15:8080", "http://10.2.0.16:8080">;
kube_rg__shop__cart__get__1_0: Host("^(www[.]example[.]org[.]?(:[0-9]+)?)$") && Path("/cart/size") && Method("GET") -> status(204) -> <shunt>;
kube_shop__search__www_example_org____search: Host(/^(www[.]example[.]org[.]?(:[0-9]+)?)$/) && PathSubtree("/search") -> "http://search.shop.svc.cluster.local";
kube_rg__pay__checkout__all__0_0: Host("^(pay[.]example[.]org)$") -> oauthTokeninfoAllScope("pay") -> enableAccessLog(4, 5) -> setPath("/pay") -> <random, "http://10.3.0.1", "http://10.3.0.2">;
kube_rg__pay__checkout__all__1_0: Path("/pay/new") -> inlineContent("<script>document.title = 'taken over'</script>") -> <shunt>;
kube__redirect: Header("X-Forwarded-Proto", "http") -> redirectTo(308, "https:") -> <shunt>;
same_1: Path("/1") -> <shunt>; same_2: Path("/2") -> <shunt>; same_3: Path("/3") -> <loopback>;`
	sampleB = `
kube_rg__shop__cart__all__0_0: Host("^(www[.]example[.]org[.]?(:[0-9]+)?)$") && PathSubtree("/cart") && Weight(3)
	-> clusterRatelimit("cart", 200, "1m") -> setPath("/v1/cart") -> setRequestHeader("X-Shop", "cart")
	-> <roundRobin, "http://10.2.0.11:8080?zone=eu-1c", "http://10.2.0.12:8080?zone=eu-1b", "http://10.2.0.17:8080?zone=eu-1b",
	"http://10.2.0.14:8080", "http://10.2.0.15:8080", "http://10.2.0.16:8080">;
kube_rg__shop__cart__get__1_1: Host("^(www[.]example[.]org[.]?(:[0-9]+)?)$") && Path("/cart/size") && Method("GET") -> status(204) -> <shunt>;
kube_shop__search__www_example_org____search: Host(/^(www[.]example[.]org[.]?(:[0-9]+)?)$/) && PathSubtree("/search") -> <"http://10.2.9.1:80", "http://10.2.9.2:80">;
kube_rg__pay__checkout__all__0_0: Host("^(pay[.]example[.]org)$") -> oauthTokeninfoAllScope("pay", "uid") -> setPath("/pay") -> <random, "http://10.3.0.1", "http://10.3.0.2">;
kube__redirect: Header("X-Forwarded-Proto", "http") -> redirectTo(301, "https:") -> <shunt>;
kube_rg__team_x__new_app__all__0_0: Host("^(new[.]example[.]org)$") -> setRequestHeader("X-Long", "` + "`LONG`" + `") -> "https://new.example.org";
same_1: Path("/1") -> <shunt>; same_2: Path("/2") -> <shunt>; same_3: Path("/3") -> <loopback>;`
)

func parse(tb testing.TB, code string) []*eskip.Route {
	tb.Helper()
	routes, err := eskip.Parse(strings.ReplaceAll(code, "`LONG`", strings.Repeat("a long value ", 20)))
	if err != nil {
		tb.Fatal(err)
	}
	return routes
}

// sample is a continuous comparison: some differences are confirmed, one is new.
func sample(tb testing.TB) shadowdiff.Comparison {
	tb.Helper()
	a, b := parse(tb, sampleA), parse(tb, sampleB)
	before := shadowdiff.Diff(a[:5], b[:5])
	start := time.Date(2026, 11, 21, 9, 58, 20, 0, time.UTC)
	tracker := shadowdiff.NewTracker(shadowdiff.TrackerConfig{})
	for i := range 30 {
		tracker.Observe(before, shadowdiff.Meta{Now: start.Add(time.Duration(i) * 3 * time.Second)})
	}
	report, now := shadowdiff.Diff(a, b), start.Add(100*time.Second)
	o := tracker.Observe(report, shadowdiff.Meta{Now: now})
	return shadowdiff.Comparison{
		A:      shadowdiff.Side{Name: "self-computed from the cluster", Revision: 84211},
		B:      shadowdiff.Side{Name: "http://routesrv.ingress.svc.cluster.local/routes", Revision: 84212},
		Report: report, At: now, Watch: &o,
	}
}

// many is a view of n routes that only A has.
func many(tb testing.TB, n int) shadowdiff.Comparison {
	tb.Helper()
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `kube_rg__team_%d__app__all__%d_0: Path("/%d") -> <shunt>;`, i%50, i, i)
	}
	return shadowdiff.Comparison{
		A: shadowdiff.Side{Name: "a.eskip"}, B: shadowdiff.Side{Name: "b.eskip"},
		Report: shadowdiff.Diff(parse(tb, b.String()), nil),
	}
}
