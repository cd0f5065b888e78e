package takeover_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/explain/takeover"
	"github.com/routesrv/routesrv/match"
	"github.com/routesrv/routesrv/shadowdiff"
	"github.com/routesrv/routesrv/table"
)

// side makes a table of routes whose ids are NAMESPACE_NAME_NUMBER.
func side(tb testing.TB, text string) takeover.Side {
	tb.Helper()
	var routes []*table.Route
	for _, r := range eskip.MustParse(text) {
		line := table.NewRoute(r)
		routes = append(routes, &line)
	}
	list, err := table.List{}.With(routes, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return takeover.Side{Routes: list, Owner: ownerOf}
}

func ownerOf(id string) shadowdiff.Owner {
	parts := strings.Split(id, "_")
	return shadowdiff.Owner{Kind: "Ingress", Namespace: parts[0], Name: parts[1]}
}

const (
	shopHost = `Host("^(shop[.]example[.]org[.]?(:[0-9]+)?)$")`
	mailHost = `Host("^(mail[.]example[.]org[.]?(:[0-9]+)?)$")`
)

// told is a report as a list of its takeovers and unknown pairs.
func told(r *takeover.Report) string {
	var all []string
	for _, t := range r.Takeovers {
		for _, one := range t.Taken {
			text := fmt.Sprintf("%s %s: %s -> %s", one.Request.Method, one.Request.URL, one.Route, one.By)
			if one.Shared {
				text += " (shared)"
			}
			all = append(all, text)
		}
	}
	for _, u := range r.Unknown {
		all = append(all, fmt.Sprintf("unknown: %s -> %s", u.Route, u.By))
	}
	return strings.Join(all, "\n")
}

func TestTakeovers(t *testing.T) {
	for _, c := range []struct {
		name          string
		before, added string // after is both
		want          string
	}{
		{
			"a subtree within another",
			`shop_cart_1: PathSubtree("/") && ` + shopHost + ` -> "http://10.0.0.1";`,
			`evil_all_1: PathSubtree("/cart") && ` + shopHost + ` -> "http://10.0.0.2";`,
			"GET https://shop.example.org/cart: shop_cart_1 -> evil_all_1",
		},
		{
			"without a host",
			`shop_cart_1: PathSubtree("/") && ` + shopHost + ` -> "http://10.0.0.1"; mail_web_1: Path("/in") && ` + mailHost + ` -> <shunt>;`,
			`evil_all_1: Path("/cart") -> "http://10.0.0.2";`,
			"GET https://shop.example.org/cart: shop_cart_1 -> evil_all_1",
		},
		{
			"a weight",
			`shop_cart_1: Path("/cart") && ` + shopHost + ` -> "http://10.0.0.1";`,
			`evil_all_1: Path("/cart") && Weight(100) -> "http://10.0.0.2";`,
			"GET https://shop.example.org/cart: shop_cart_1 -> evil_all_1",
		},
		{
			"equal at one place",
			`shop_cart_1: Path("/cart") && ` + shopHost + ` -> "http://10.0.0.1";`,
			`evil_all_1: Path("/cart") && ` + shopHost + ` -> "http://10.0.0.2";`,
			"GET https://shop.example.org/cart: shop_cart_1 -> evil_all_1 (shared)",
		},
		{
			"a method of its own",
			`shop_cart_1: Path("/cart") && ` + shopHost + ` -> "http://10.0.0.1";`,
			`evil_all_1: Path("/cart") && Method("DELETE") && ` + shopHost + ` -> "http://10.0.0.2";`,
			"DELETE https://shop.example.org/cart: shop_cart_1 -> evil_all_1",
		},
		{
			"only what nobody else takes",
			`shop_cart_1: PathSubtree("/") && ` + shopHost + ` -> "http://10.0.0.1";
			 shop_api_1: Path("/:any") && Weight(9) && ` + shopHost + ` -> "http://10.0.0.1";`,
			`evil_all_1: PathSubtree("/:any") && ` + shopHost + ` -> "http://10.0.0.2";`,
			"GET https://shop.example.org/x/: shop_cart_1 -> evil_all_1",
		},
		{
			"only what is deeper than all others",
			`shop_cart_1: PathSubtree("/") && ` + shopHost + ` -> "http://10.0.0.1";
			 shop_api_1: Path("/:a") && Weight(9) && ` + shopHost + ` -> <shunt>; shop_api_2: Path("/:a/") && Weight(9) && ` + shopHost + ` -> <shunt>;
			 shop_api_3: Path("/:a/:b") && ` + shopHost + ` -> <shunt>; shop_api_4: Path("/:a/:b/") && ` + shopHost + ` -> <shunt>;`,
			`evil_all_1: PathSubtree("/:any") && ` + shopHost + ` -> "http://10.0.0.2";`,
			"GET https://shop.example.org/x/x/x: shop_cart_1 -> evil_all_1",
		},
		{
			"only with a port",
			`shop_cart_1: Path("/cart") && ` + shopHost + ` -> <shunt>; shop_api_1: Path("/cart") && Host("^shop[.]example[.]org$") && Weight(9) -> <shunt>;`,
			`evil_all_1: Path("/cart") && Weight(3) && ` + shopHost + ` -> "http://10.0.0.2";`,
			"GET https://shop.example.org:8080/cart: shop_cart_1 -> evil_all_1",
		},
		{
			"another host",
			`shop_cart_1: PathSubtree("/") && ` + shopHost + ` -> "http://10.0.0.1";`,
			`evil_all_1: PathSubtree("/cart") && ` + mailHost + ` -> "http://10.0.0.2";`,
			"",
		},
		{
			"less specific",
			`shop_cart_1: PathSubtree("/cart") && ` + shopHost + ` -> "http://10.0.0.1";`,
			`evil_all_1: PathSubtree("/") && ` + shopHost + ` -> "http://10.0.0.2";`,
			"",
		},
		{
			"the same owner",
			`shop_cart_1: PathSubtree("/") && ` + shopHost + ` -> "http://10.0.0.1";`,
			`shop_cart_2: PathSubtree("/cart") && ` + shopHost + ` -> "http://10.0.0.2";`,
			"",
		},
		{
			"an expression against nothing",
			`shop_cart_1: ` + shopHost + ` -> "http://10.0.0.1";`,
			`evil_all_1: PathRegexp("^/cart/[0-9]+$") && ` + shopHost + ` -> "http://10.0.0.2";`,
			"GET https://shop.example.org/cart/1: shop_cart_1 -> evil_all_1",
		},
		{
			"expressions that may meet",
			`shop_cart_1: PathRegexp("^/cart/.*7$") && ` + shopHost + ` -> "http://10.0.0.1";`,
			`evil_all_1: PathRegexp("^/cart/8.*$") && Weight(3) && ` + shopHost + ` -> "http://10.0.0.2";`,
			"unknown: shop_cart_1 -> evil_all_1",
		},
		{
			"expressions that cannot meet",
			`shop_cart_1: PathRegexp("^/cart/") && ` + shopHost + ` -> "http://10.0.0.1";`,
			`evil_all_1: PathRegexp("^/card/") && Weight(3) && ` + shopHost + ` -> "http://10.0.0.2";`,
			"",
		},
		{
			"a cookie and a query",
			`shop_cart_1: Path("/cart") && ` + shopHost + ` -> "http://10.0.0.1";`,
			`evil_all_1: Path("/cart") && Cookie("beta", "^(yes|on)$") && QueryParam("q") && ` + shopHost + ` -> "http://10.0.0.2";`,
			"GET https://shop.example.org/cart?q=: shop_cart_1 -> evil_all_1",
		},
		{
			"a route that no proxy uses",
			`shop_cart_1: Path("/cart") && ` + shopHost + ` -> "http://10.0.0.1";`,
			`evil_all_1: Path("/cart") && Weight(9) && ` + shopHost + ` -> noSuchFilter() -> "http://10.0.0.2";`,
			"",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := takeover.Find(side(t, c.before), side(t, c.before+c.added), takeover.Options{})
			if got := told(r); got != c.want {
				t.Errorf("takeovers:\n%s\nwant:\n%s", got, c.want)
			}
		})
	}
}

// TestLoserThatChangesAsWell: new filters and backends give nothing up. A route that proxies do not accept any more does, and so do new predicates.
func TestLoserThatChangesAsWell(t *testing.T) {
	shop := `shop_cart_1: PathSubtree("/") && ` + shopHost
	evil := `evil_all_1: PathSubtree("/cart") && ` + shopHost + ` -> "http://10.0.0.3";`
	lost := "GET https://shop.example.org/cart: shop_cart_1 -> evil_all_1"
	for after, want := range map[string]string{
		` -> status(200) -> <shunt>;`:                             lost,
		` -> <roundRobin, "http://10.0.0.8", "http://10.0.0.9">;`: lost,
		` -> noSuchFilter() -> "http://10.0.0.1";`:                "",
		` && Method("PUT") -> "http://10.0.0.1";`:                 "",
	} {
		r := takeover.Find(side(t, shop+` -> "http://10.0.0.1";`), side(t, shop+after+evil), takeover.Options{})
		if got := told(r); got != want {
			t.Errorf("%s: %q, want %q", after, got, want)
		}
	}
}

// TestWhatChangesNoWinnerIsNoTakeover: endpoints come and go, and routes of the loser itself.
func TestWhatChangesNoWinnerIsNoTakeover(t *testing.T) {
	shop := `shop_cart_1: PathSubtree("/") && ` + shopHost + ` -> <roundRobin, "http://10.0.0.1", "http://10.0.0.2">;`
	evil := `evil_all_1: PathSubtree("/cart") && ` + shopHost + ` -> <roundRobin, "http://10.0.0.3">;`
	for name, c := range map[string][2]string{
		"endpoints":    {shop + evil, shop + strings.ReplaceAll(evil, "10.0.0.3", "10.0.0.4")},
		"given back":   {shop + evil, shop},
		"lost its own": {shop + evil, evil},
	} {
		r := takeover.Find(side(t, c[0]), side(t, c[1]), takeover.Options{})
		if got := told(r); got != "" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestMuchToCompareHasALimit: an object without a host competes with all routes, and the report says that not all were compared.
func TestMuchToCompareHasALimit(t *testing.T) {
	var shops strings.Builder
	for i := range 50 {
		fmt.Fprintf(&shops, "shop_s%d_1: PathSubtree(\"/\") && Host(\"^(s%d[.]example[.]org)$\") -> <shunt>;\n", i, i)
	}
	added := shops.String() + `evil_all_1: PathSubtree("/cart") -> <shunt>;`
	whole := takeover.FindInChunks(side(t, shops.String()), side(t, added), takeover.Options{}, 10)
	limited := takeover.Options{Steps: 2000}
	part := takeover.FindInChunks(side(t, shops.String()), side(t, added), limited, 10)
	if n := len(part.Takeovers); len(whole.Takeovers) != 50 || whole.Skipped != 0 || n == 0 || n == 50 || part.Skipped == 0 {
		t.Errorf("%d takeovers, %d skipped; with a limit %d, %d", len(whole.Takeovers), whole.Skipped, n, part.Skipped)
	}
	nobody := func(_, _ shadowdiff.Owner) bool { return false }
	if refused := (takeover.Policy{Routes: 40}).Refused(part, nobody); len(refused) == 0 {
		t.Error("what is too expensive passes the policy")
	}

	// Another namespace has a share of its own, and its change is smaller.
	both := takeover.FindInChunks(side(t, shops.String()), side(t, added+`mail_web_1: PathSubtree("/in") && Host("^(s7[.]example[.]org)$") -> <shunt>;
		free_web_1: PathSubtree("/") && Host("^(free[.]example[.]org)$") -> <shunt>;`), limited, 10)
	refused := takeover.Policy{Routes: 1}.Refused(both, nobody)
	if !strings.Contains(refused["mail_web_1"], "takes GET https://s7.example.org/in: Ingress shop/s7") || refused["free_web_1"] != "" || refused["evil_all_1"] == "" {
		t.Errorf("refused are %v", refused)
	}
	if stopped := takeover.Find(side(t, shops.String()), side(t, added), takeover.Options{Stop: func() bool { return true }}); len(stopped.Takeovers) > 0 || stopped.Skipped == 0 {
		t.Errorf("a search that was stopped found %d takeovers", len(stopped.Takeovers))
	}
}

// TestARouteWithoutHostsOwnsNone: the first route for a host takes nothing from a route for any host, or for what an expression says.
func TestARouteWithoutHostsOwnsNone(t *testing.T) {
	for _, owner := range []string{`*`, `PathSubtree("/")`, `Host("[.]org$")`, `Host(".*") && PathRegexp("^/")`} {
		r := takeover.Find(side(t, `greedy_all_1: `+owner+` -> <shunt>;`), side(t, `greedy_all_1: `+owner+` -> <shunt>; shop_cart_1: PathSubtree("/") && `+shopHost+` -> <shunt>;`), takeover.Options{})
		if got := told(r); got != "" || r.Skipped > 0 {
			t.Errorf("%s: %s", owner, got)
		}
	}
}

// TestWhatNobodyKnowsIsRefused: predicates that decide by what no request shows, that only the proxies know, and expressions that are too large.
func TestWhatNobodyKnowsIsRefused(t *testing.T) {
	shop := `shop_cart_1: PathSubtree("/") && ` + shopHost + ` -> <shunt>;`
	for predicate, unknown := range map[string]bool{
		`JWTPayloadAnyKVRegexp("sub", ".*")`: true, `JWTPayloadAllKV("a", "b")`: true, `OnlyOurs("x")`: false, `OnlyOurs()`: false,
		`HeaderSHA256("X-A", "5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9")`: true,
		`PathRegexp("((((x{10}){10}){10})|y){3}")`:                                                true, `Cookie("a", "^(((b{9}){9}){9}){9}$")`: true, `OTelBaggage("a", "b")`: true, `Traffic(0.5)`: false,
		`Between("2026-01-01T00:00:00Z", "2030-01-01T00:00:00Z")`: false, `Tee("x")`: true, `ForwardedHost("^shop")`: true,
	} {
		r := takeover.Find(side(t, shop), side(t, shop+`evil_all_1: PathSubtree("/") && `+shopHost+` && `+predicate+` -> <shunt>;`), takeover.Options{
			Proxy: match.Options{ExtraPredicates: []string{"OnlyOurs"}},
		})
		refused := takeover.Policy{Routes: 1}.Refused(r, func(_, _ shadowdiff.Owner) bool { return false })
		if refused["evil_all_1"] == "" || unknown == strings.HasPrefix(refused["evil_all_1"], "takes") {
			t.Errorf("%s: refused are %q, takeovers:\n%s", predicate, refused, told(r))
		}
	}
}

// randomRoutes are routes of three owners that share hosts and paths; literal ones only, unless expressions is set.
func randomRoutes(rnd *rand.Rand, owners []string, n int, expressions bool) map[string]string {
	pick := func(words ...string) string { return words[rnd.IntN(len(words))] }
	path := func() string {
		var b strings.Builder
		for range rnd.IntN(4) {
			b.WriteString("/" + pick("a", "a", "b", ":w"))
		}
		return b.String() + pick("", "", "/", "/**")
	}
	routes := map[string]string{}
	for i := range n {
		text := "*"
		switch rnd.IntN(6) {
		case 0, 1, 2:
			text += fmt.Sprintf(" && Path(%q)", path())
		case 3, 4:
			text += fmt.Sprintf(" && PathSubtree(%q)", path())
		}
		text += pick("", " && "+shopHost, " && "+mailHost, ` && Host("^(shop[.]example[.]org|mail[.]example[.]org[.]?(:[0-9]+)?)$")`)
		text += pick("", "", ` && Method("GET")`, ` && Method("POST")`, ` && Methods("GET", "PUT")`)
		text += pick("", "", ` && Header("X-A", "1")`, ` && Header("x-a", "2")`, ` && Header("X-B", "1")`)
		text += pick("", "", "", ` && Weight(3)`, ` && Weight(-2)`)
		if expressions {
			text += pick("", "", ` && PathRegexp("^/a")`, ` && PathRegexp("b$")`, ` && HeaderRegexp("X-B", "[12]")`, ` && Host("mail")`, ` && Cookie("c", "^[1-9]$")`,
				` && Traffic(0.5)`, ` && QueryParam("q", "^x")`, ` && ClientIP("10.0.0.0/8")`)
		}
		routes[fmt.Sprintf("%s_%d", owners[rnd.IntN(len(owners))], i)] = text + " -> <shunt>"
	}
	return routes
}

func document(routes map[string]string) string {
	var b strings.Builder
	for id, text := range routes {
		fmt.Fprintf(&b, "%s: %s;\n", id, text)
	}
	return b.String()
}

// grid yields all requests that can make a difference for literal routes of randomRoutes.
func grid(yield func(match.Request) bool) {
	paths := []string{"/"}
	level := []string{""}
	for range 5 {
		var next []string
		for _, p := range level {
			for _, s := range []string{"a", "b", "z"} {
				if len(p) < 6 || s == "z" {
					next = append(next, p+"/"+s)
				}
			}
		}
		for _, p := range next {
			paths = append(paths, p, p+"/")
		}
		level = next
	}
	for _, host := range []string{"shop.example.org", "mail.example.org", "shop.example.org:80", "other.example.org"} {
		for _, path := range paths {
			for _, method := range []string{"GET", "POST", "PUT", "FOO"} {
				for _, a := range [][]string{nil, {"1"}, {"2"}, {"1", "2"}} {
					for _, b := range [][]string{nil, {"1"}} {
						if !yield(match.Request{Method: method, Target: path, Host: host, Header: map[string][]string{"X-A": a, "X-B": b}}) {
							return
						}
					}
				}
			}
		}
	}
}

func ids(r match.Result) (all []string) {
	for _, o := range r.Outcomes {
		if o.Route != nil {
			all = append(all, o.Route.Id)
		}
	}
	return all
}

// FuzzTakeoversEqualASearch: for random tables and changes, the report has what a slow search over a grid of requests finds, and each of its
// examples is true. Where routes have expressions, what the search finds may also be unknown.
func FuzzTakeoversEqualASearch(f *testing.F) {
	for seed := range uint64(6) {
		f.Add(seed, uint8(4+seed%9), uint8(1+seed%3), seed%3 == 2)
	}
	f.Fuzz(func(t *testing.T, seed uint64, size, changes uint8, expressions bool) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		before := randomRoutes(rnd, []string{"shop_cart", "shop_api", "evil_all"}, int(size%16), expressions)
		after := map[string]string{}
		for id, text := range before {
			if rnd.IntN(8) > 0 {
				after[id] = text
			}
		}
		for id, text := range randomRoutes(rnd, []string{"evil_all", "evil_new", "shop_api"}, int(changes%5), expressions) {
			after[id] = text
		}
		options := match.Options{NormalizeHost: seed%2 == 0, IgnoreTrailingSlash: seed%5 == 0}
		a, b := side(t, document(before)), side(t, document(after))
		report := takeover.FindInChunks(a, b, takeover.Options{Proxy: options}, 1+int(seed%3))

		old, _ := match.New(eskip.MustParse(document(before)), options)
		now, _ := match.New(eskip.MustParse(document(after)), options)
		known := map[string]bool{}
		for _, takeover := range report.Takeovers {
			for _, one := range takeover.Taken {
				host := strings.TrimPrefix(one.Request.URL[:strings.Index(one.Request.URL[8:]+"/", "/")+8], "https://")
				in := match.Request{
					Method: one.Request.Method, Host: host, Target: strings.TrimPrefix(one.Request.URL, "https://"+host), Header: one.Request.Header, RemoteAddr: one.Request.From,
				}
				was, is := ids(old.Find(in)), ids(now.Find(in))
				if !slices.Contains(was, one.Route) || !slices.Contains(is, one.By) || slices.Contains(is, one.Route) != one.Shared {
					t.Errorf("%+v: before %v, after %v\n%s\n%s", one, was, is, document(before), document(after))
				}
				known[one.Route+" "+takeover.To.String()] = true
			}
		}
		for _, u := range report.Unknown {
			if !expressions {
				t.Errorf("unknown among literal routes: %+v\n%s\n%s", u, document(before), document(after))
			}
			known[u.From.String()+" "+u.To.String()] = true
		}
		for in := range grid {
			was, is := ids(old.Find(in)), ids(now.Find(in))
			for _, lost := range was {
				for _, by := range is {
					from, to := ownerOf(lost), ownerOf(by)
					if from == to || !strings.Contains(before[lost], `Host("^`) || before[lost] != after[lost] || before[by] == after[by] || slices.Contains(was, by) && slices.Contains(is, lost) {
						continue
					}
					if !known[lost+" "+to.String()] && !known[from.String()+" "+to.String()] {
						t.Fatalf("%s %s%s %v: %s is lost to %s, and the report does not say so\n%s\n%s", in.Method, in.Host, in.Target, in.Header, lost, by,
							document(before), document(after))
					}
				}
			}
		}
	})
}

// TestReportsForPeople: the form names objects, and hostile names break no table.
func TestReportsForPeople(t *testing.T) {
	shop := `shop_cart_1: PathSubtree("/") && ` + shopHost + ` -> <shunt>; shop_cart_2: Path("/in") && ` + shopHost + ` -> <shunt>;`
	evil := `evil_all_1: PathSubtree("/cart") && Header("X-A", "|") && ` + shopHost + ` -> <shunt>; evil_all_2: Path("/in") && ` + shopHost + ` -> <shunt>;`
	r := takeover.Find(side(t, shop), side(t, shop+evil), takeover.Options{})
	var text, none strings.Builder
	for _, err := range []error{r.WriteText(&text), new(takeover.Report).WriteText(&none)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	wantText := `1 object takes requests from others

Ingress shop/cart -> Ingress evil/all: 2 routes lose requests
    GET https://shop.example.org/cart: Ingress shop/cart -> Ingress evil/all (with X-A: |)
        route shop_cart_1 -> evil_all_1
    GET https://shop.example.org/in: Ingress shop/cart -> Ingress evil/all as well, at random
        route shop_cart_2 -> evil_all_2
`
	if text.String() != wantText || none.String() != "no request of another owner changes its route\n" {
		t.Errorf("text\n%s\nnone\n%s", text.String(), none.String())
	}
}
