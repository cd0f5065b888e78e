package match_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/catalogue"
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/match"
)

// ids returns the ids of the routes that may win; "-" stands for no route.
func ids(r match.Result) string {
	if r.Answer != nil {
		return fmt.Sprint(r.Answer.Status)
	}
	var all []string
	for _, o := range r.Outcomes {
		if o.Route == nil {
			all = append(all, "-")
		} else {
			all = append(all, o.Route.Id)
		}
	}
	return strings.Join(all, " ")
}

// get is a request for a URL without a host, with headers of one line each.
func get(target string, headers ...string) match.Request {
	r := match.Request{Target: target, Header: map[string][]string{}}
	for i := 0; i < len(headers); i += 2 {
		r.Header[headers[i]] = append(r.Header[headers[i]], headers[i+1])
	}
	return r
}

func with(r match.Request, change func(*match.Request)) match.Request {
	change(&r)
	return r
}

// TestPredicates covers what the cases of the reference do not. "a" means that the route matches, "-" that it does not, and both
// that it is undecided.
func TestPredicates(t *testing.T) {
	at := func(text string) match.Request {
		when, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return match.Request{Time: when}
	}
	tests := []struct {
		predicate string
		request   match.Request
		want      string
	}{
		{`Shutdown()`, match.Request{}, "a -"},
		{`Traffic(0.5)`, match.Request{}, "a -"},
		{`Traffic(0.5, "c", "x")`, get("/", "Cookie", "c=x"), "a"},
		{`Traffic(0.5, "c", "x")`, get("/", "Cookie", "c=y"), "-"},
		{`Traffic(0.5, "c", "")`, get("/", "Cookie", "c=y"), "a -"},
		{`Traffic(1, "c", "x")`, get("/", "Cookie", "c=y"), "-"},
		{`TrafficSegment(0.3, 0.3)`, match.Request{}, "-"},
		{`TrafficSegment(0, 1)`, match.Request{}, "a"},
		{`ClientIP("10.0.0.0/8")`, match.Request{}, "a -"},
		{`ClientIP("10.0.0.0/8")`, match.Request{RemoteAddr: "nonsense"}, "-"},
		{`ClientIP("::ffff:10.0.0.1")`, match.Request{RemoteAddr: "10.0.0.1"}, "-"},
		{`Source("10.0.0.0/8")`, get("/", "X-Forwarded-For", "10.0.0.1"), "a"},
		{`Source("10.0.0.0/8")`, get("/", "X-Forwarded-For", "10.0.0.1 , 10.0.0.2"), "a -"},
		{`SourceFromLast("10.0.0.0/8")`, get("/", "X-Forwarded-For", "1.1.1.1, 10.0.0.1 "), "a"},
		{`Before("2026-01-01T00:00:00Z")`, at("2025-12-31T23:59:59Z"), "a"},
		{`Before("2026-01-01T00:00:00Z")`, at("2026-01-01T00:00:00Z"), "-"},
		{`Before("2026-01-01T00:00:00Z")`, match.Request{}, "a -"},
		{`Before("2026-01-01T00:00:00Z")`, with(at("2025-12-31T23:59:58Z"), func(r *match.Request) { r.Slack = 5 * time.Second }), "a -"},
		{`After("2026-01-01T00:00:00Z")`, at("2026-01-01T00:00:00Z"), "a"},
		{`After("2026-01-01T00:00:00", "Europe/Berlin")`, at("2025-12-31T23:00:00Z"), "a"},
		{`After("2026-01-01T00:00:00", "Europe/Berlin")`, at("2025-12-31T22:59:59Z"), "-"},
		{`Between(1000, 2000)`, match.Request{Time: time.Unix(2000, 0)}, "-"},
		{`Between(1000, 2000)`, match.Request{Time: time.Unix(1000, 0)}, "a"},
		{`Cron("* * * * *")`, at("2026-01-01T10:00:00Z"), "a"},
		{`Cron("0-5,10 10 1 1 4")`, at("2026-01-01T10:10:00Z"), "a"},
		{`Cron("0-5,10 10 1 1 5")`, at("2026-01-01T10:10:00Z"), "-"},
		{`Cron("10 11 * * *")`, at("2026-01-01T11:10:00+01:00"), "a"},
		{`Cron("10 * * * *")`, with(at("2026-01-01T10:09:58Z"), func(r *match.Request) { r.Slack = 5 * time.Second }), "a -"},
		{`Cron("10 * * * *")`, match.Request{}, "a -"},
		{`HeaderSHA256("X-S", "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8")`, get("/", "x-s", "password"), "a"},
		{`HeaderSHA256("X-S", "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8")`, get("/", "x-s", "guess"), "-"},
		{`ForwardedHost("^$")`, get("/", "Forwarded", "proto=http"), "a"},
		{`ForwardedHost("^$")`, match.Request{}, "-"},
		{`ContentLengthBetween(0, 10)`, match.Request{}, "a"},
		{`ContentLengthBetween(0, 10)`, get("/", "Transfer-Encoding", "chunked"), "-"},
		{`OTelBaggage("")`, match.Request{}, "a"},
		{`Header("x-a", "1") && Header("X-A", "2")`, get("/", "X-A", "1"), "a -"},
		{`Header("x-a", "1") && Header("X-A", "2")`, get("/", "X-A", "3"), "-"},
		{`Header("x-a", "1") && Header("X-A", "2")`, get("/", "X-A", "1", "X-A", "2"), "a"},
		{`Header("Host", "x")`, get("/", "Host", "x"), "-"},
		{`Path("/a")`, match.Request{Target: "/%61"}, "a"},
		{`Path("a/")`, match.Request{Target: "/a"}, "a"},
		{`Path("a/")`, match.Request{Target: "/a/"}, "-"},
		{`Path("/a/.")`, match.Request{Target: "/a/"}, "a"},
		{`Path("/*")`, match.Request{Target: "*"}, "a"},
		{`Path("/")`, match.Request{Method: "CONNECT", Target: "a.b:443"}, "a"},
		{`Host("^a.b:443$")`, match.Request{Method: "CONNECT", Target: "a.b:443"}, "a"},
		{`Host("^$")`, match.Request{}, "a"},
		{`Host("^x$")`, match.Request{Target: "http://x/", Host: "y"}, "a"},
		{`Path("/a#b")`, match.Request{Target: "/a#b"}, "a"},
		{`True()`, match.Request{Target: "a"}, "400"},
		{`True()`, match.Request{Target: "/%zz"}, "400"},
		{`True()`, match.Request{Target: "/?a;b"}, "400"},
		{`True()`, match.Request{Host: "a b"}, "400"},
		{`True()`, match.Request{Method: "OPTIONS", Target: "*"}, "200"},
	}
	for _, tt := range tests {
		table, refusals := match.New(eskip.MustParse("a: "+tt.predicate+" -> <shunt>"), match.Options{ValidateQuery: true, Zone: time.LoadLocation})
		if len(refusals) > 0 {
			t.Errorf("%s: refused: %s", tt.predicate, refusals[0].Text)
		} else if got := ids(table.Find(tt.request)); got != tt.want {
			t.Errorf("%s of %+v: %s, want %s", tt.predicate, tt.request, got, tt.want)
		}
	}
}

// TestRefusals: the first check that fails is the reported reason.
func TestRefusals(t *testing.T) {
	tests := []struct {
		route string
		want  match.Reason // empty for a valid route
	}{
		{`* -> "example.org"`, catalogue.FailedBackendSplit},
		{`* -> ""`, ""},
		{`Host("[") -> nosuch() -> "example.org"`, catalogue.FailedBackendSplit},
		{`NoSuch() -> nosuch() -> <shunt>`, catalogue.UnknownFilter},
		{`* -> Weight(1) -> <shunt>`, catalogue.UnknownFilter},
		{`* -> nosuch() -> <forward>`, ""},
		{`* -> status("x") -> <shunt>`, catalogue.InvalidFilterParams},
		{`* -> status(1, 2) -> <shunt>`, catalogue.InvalidFilterParams},
		{`* -> status(1000000000) -> <shunt>`, ""},
		{`* -> tee("http://a", "b") -> <shunt>`, catalogue.InvalidFilterParams},
		{`* -> modPath("[", "") -> <shunt>`, catalogue.InvalidFilterParams},
		{`* -> latency(-1) -> <shunt>`, catalogue.InvalidFilterParams},
		{`* -> latency("-1s") -> <shunt>`, catalogue.InvalidFilterParams},
		{`* -> backendTimeout("-1s") -> <shunt>`, ""},
		{`* -> inlineContentIfStatus(99, "") -> <shunt>`, catalogue.InvalidFilterParams},
		{`* -> compress(11, "a/b") -> compress("...", "a/b") -> <shunt>`, ""},
		{`* -> compress(12) -> <shunt>`, catalogue.InvalidFilterParams},
		{`* -> clientRatelimit(1, "1m") -> <shunt>`, ""},
		{`* -> oauthTokeninfoAllKV("a") -> <shunt>`, catalogue.InvalidFilterParams},
		{`* -> own("x") -> <shunt>`, ""},
		{`* -> setPath("/x") -> static("/a", "/b") -> <shunt>`, catalogue.UnknownFilter}, // disabled
		{`Weight("1") && NoSuch() -> <shunt>`, catalogue.InvalidPredicateParams},
		{`NoSuch() && Weight("1") -> <shunt>`, catalogue.UnknownPredicate},
		{`Weight(1, 2) -> <shunt>`, catalogue.InvalidPredicateParams},
		{`Cookie("a", "[") && Host("[") -> <shunt>`, catalogue.InvalidPredicateParams},
		{`Traffic(2) -> <shunt>`, catalogue.InvalidPredicateParams},
		{`Traffic(0.1, "a") -> <shunt>`, catalogue.InvalidPredicateParams},
		{`TrafficSegment(0.5, 0.1) -> <shunt>`, catalogue.InvalidPredicateParams},
		{`Source("0.0.0.0") -> <shunt>`, catalogue.InvalidPredicateParams},
		{`Source("0.0.0.0/0") -> <shunt>`, ""},
		{`Methods("FOO") -> <shunt>`, catalogue.InvalidPredicateParams},
		{`Between(2, 1) -> <shunt>`, catalogue.InvalidPredicateParams},
		{`After("2021-02-18T00:00:00", "Nowhere/Land") -> <shunt>`, catalogue.InvalidPredicateParams},
		{`After("2021-02-18T00:00:00") -> <shunt>`, catalogue.InvalidPredicateParams},
		{`Cron("*/5 * * * *") -> <shunt>`, catalogue.InvalidPredicateParams},
		{`Cron("* * * * 7") -> <shunt>`, catalogue.InvalidPredicateParams},
		{`Cron("* * * *") -> <shunt>`, catalogue.InvalidPredicateParams},
		{`HeaderSHA256("a", "b") -> <shunt>`, catalogue.InvalidPredicateParams},
		{`JWTPayloadAnyKV("a") -> <shunt>`, catalogue.InvalidPredicateParams},
		{`ForwardedProtocol("HTTP") -> <shunt>`, catalogue.InvalidPredicateParams},
		{`ContentLengthBetween(5, 5) -> <shunt>`, catalogue.InvalidPredicateParams},
		{`OwnPredicate("x") -> <shunt>`, ""},
		{`True(1, "x") && Any() -> <shunt>`, ""},
		{`Path("/a") && PathSubtree("/b") -> <best, "http://a">`, catalogue.Other},
		{`PathSubtree("/a", "/b") -> <shunt>`, catalogue.Other},
		{`PathSubtree(1) -> <shunt>`, catalogue.Other},
		{`Host("[") -> <best, "http://a">`, catalogue.Dropped},
		{`* -> <best, "http://a">`, catalogue.Dropped},
		{`* -> <random, "http://a">`, ""},
		{`Path("/a/**/") -> <shunt>`, catalogue.InvalidMatcher},
		{`PathSubtree("/*a/b") -> <shunt>`, catalogue.InvalidMatcher},
		{`HeaderRegexp("A", "(") -> <shunt>`, catalogue.InvalidMatcher},
		{`Host(/^(*[.]example[.]org[.]?(:[0-9]+)?)$/) -> <shunt>`, catalogue.InvalidMatcher},
		{`Path("/v1/x:cancel") -> <shunt>`, match.Dead},
		{`Path("/e/:id.json") -> <shunt>`, ""},
	}
	for _, tt := range tests {
		_, refusals := match.New(eskip.MustParse(tt.route), match.Options{
			ExtraFilters: []string{"own"}, ExtraPredicates: []string{"OwnPredicate"}, DisabledFilters: []string{"static"}, Zone: time.LoadLocation,
		})
		got, text := match.Reason(""), ""
		if len(refusals) > 0 {
			got, text = refusals[0].Reason, refusals[0].Text
		}
		if got != tt.want || got != "" && text == "" {
			t.Errorf("%s: %q (%s), want %q", tt.route, got, text, tt.want)
		}
	}
}

func TestLastOfTwoRoutesWithOneIDCounts(t *testing.T) {
	table, refusals := match.New(eskip.MustParse(`a: Path("/a") -> <shunt>; a: Path("/b") -> <shunt>`), match.Options{})
	if len(refusals) != 1 || refusals[0].Reason != match.Overridden || refusals[0].Route.Path != "/a" {
		t.Errorf("refusals %v, want the first route", refusals)
	}
	if got := ids(table.Find(get("/a"))) + " " + ids(table.Find(get("/b"))); got != "- a" {
		t.Errorf("got %s, want - a", got)
	}
}

// TestOutcomesOfChance: every route that may win is an outcome, and no other.
func TestOutcomesOfChance(t *testing.T) {
	for routes, want := range map[string]string{
		`a: Traffic(0.1) -> <shunt>; b: * -> <shunt>`:                                                                          "a b",
		`a: Traffic(0.5) && Weight(1) -> <shunt>; b: Traffic(0.5) -> <shunt>`:                                                  "a b -",
		`a: TrafficSegment(0, 0.25) -> <shunt>; b: TrafficSegment(0.25, 1) -> <shunt>; c: Weight(-1) -> <shunt>`:               "a b",
		`a: TrafficSegment(0, 0.5) && Traffic(0.5) -> <shunt>; b: TrafficSegment(0, 0.8) -> <shunt>; c: Weight(-1) -> <shunt>`: "a b c",
		`a: TrafficSegment(0.1, 0.6) -> <shunt>; b: TrafficSegment(0.5, 1) -> <shunt>`:                                         "a b -",
		`a: Shutdown() -> <shunt>; b: * -> <shunt>`:                                                                            "a b",
	} {
		table, _ := match.New(eskip.MustParse(routes), match.Options{})
		if got := ids(table.Find(get("/", "a", "1"))); got != want {
			t.Errorf("%s: %s, want %s", routes, got, want)
		}
	}
}

func TestTiesAreNamed(t *testing.T) {
	table, _ := match.New(eskip.MustParse(`a: Path("/foo") -> <shunt>; b: PathSubtree("/foo") -> <shunt>; c: * -> <shunt>`), match.Options{})
	res := table.Find(get("/foo"))
	if res.Decided() || ids(res) != "a b" || !slices.Equal(res.Outcomes[0].Ties, []string{"b"}) {
		t.Errorf("outcomes %+v, want a and b, which tie", res.Outcomes)
	}
}

const explained = `
exact: Path("/cart") && Host(/^(shop[.]example[.]org[.]?(:[0-9]+)?)$/) && Method("POST") -> <shunt>;
two: Path("/cart") && Host(/^(shop[.]example[.]org[.]?(:[0-9]+)?)$/) && Method("POST") && Header("X-Beta", "1") -> <shunt>;
tree: PathSubtree("/cart") && Host(/^(shop[.]example[.]org[.]?(:[0-9]+)?)$/) -> <shunt>;
light: PathSubtree("/cart") && Weight(-5) -> <shunt>;
up: PathSubtree("/") -> <shunt>;
other: Path("/carts") && Host(/^(shop[.]example[.]org[.]?(:[0-9]+)?)$/) -> <shunt>;
elsewhere: Path("/cart") && Host(/^(pay[.]example[.]org[.]?(:[0-9]+)?)$/) -> <shunt>;
root: * -> <shunt>;
bad: Path("/cart") && Weight(10) -> nosuch() -> <shunt>;
behind: PathSubtree("/") -> nosuch() -> <shunt>;
`

// TestCandidatesAndWarnings: routes that match come first, then the nearest misses.
func TestCandidatesAndWarnings(t *testing.T) {
	table, _ := match.New(eskip.MustParse(explained), match.Options{Candidates: 20})
	res := table.Find(match.Request{Target: "/cart", Host: "shop.example.org"})
	if ids(res) != "tree" {
		t.Fatalf("%s wins, want tree", ids(res))
	}
	var got []string
	for _, c := range res.Candidates {
		got = append(got, strings.TrimSpace(fmt.Sprintln(c.Route.Id, strings.Join(c.Lost, " "), c.Behind)))
	}
	want := []string{
		"light  lower weight", "up  less specific path", "root  no path predicate", `exact Method("POST")`,
		`two Method("POST") Header("X-Beta", "1")`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("candidates (-want +got):\n%s", d)
	}
	if len(res.Warnings) != 2 || res.Warnings[0].Route.Id != "bad" || !res.Warnings[0].Ahead || res.Warnings[1].Ahead {
		t.Errorf("warnings %+v, want bad ahead and behind not", res.Warnings)
	}
}

// TestCandidatesOfANoRoute: the path may be what is wrong, so routes of the same host are candidates, the likeliest first.
func TestCandidatesOfANoRoute(t *testing.T) {
	table, _ := match.New(eskip.MustParse(`a: Path("/cars") && Host("^shop$") -> <shunt>; b: Path("/cart") && Host("^shop$") -> <shunt>; c: Path("/cart") && Host("^pay$") -> <shunt>;`), match.Options{})
	res := table.Find(match.Request{Target: "/cartt", Host: "shop"})
	if ids(res) != "-" || len(res.Candidates) != 2 || res.Candidates[0].Route.Id != "b" || !slices.Equal(res.Candidates[0].Lost, []string{`Path("/cart")`}) {
		t.Errorf("%s, candidates %+v, want no route, b and a", ids(res), res.Candidates)
	}
}

// TestWarningsOfWildcardHosts: no proxy can compile such a host, but the intended requests are clear.
func TestWarningsOfWildcardHosts(t *testing.T) {
	table, _ := match.New(eskip.MustParse(`a: Host(/^(*[.]example[.]org[.]?(:[0-9]+)?)$/) -> <shunt>; b: Host("[") -> <shunt>`), match.Options{})
	for host, want := range map[string]int{"shop.example.org": 2, "shop.example.com": 1} {
		res := table.Find(match.Request{Host: host})
		if got := len(res.Warnings); got != want || res.Warnings[got-1].Partly != true {
			t.Errorf("%s: warnings %+v, want %d", host, res.Warnings, want)
		}
	}
}

func TestNotesNameWhatAFilterNeeds(t *testing.T) {
	table, _ := match.New(eskip.MustParse(`* -> clientRatelimit(1, "1m") -> lua("x") -> <shunt>`), match.Options{})
	notes := strings.Join(table.Find(match.Request{}).Outcomes[0].Notes, "\n")
	if !strings.Contains(notes, "-enable-ratelimits") || !strings.Contains(notes, "lua depends on file") {
		t.Errorf("notes %s, want the flag of clientRatelimit and the script of lua", notes)
	}
}

// TestFindIsSafeForConcurrentUse: expressions are compiled on first use.
func TestFindIsSafeForConcurrentUse(t *testing.T) {
	table, _ := match.New(eskip.MustParse(`a: PathRegexp("^/[a-z]+$") && Cookie("a", "^x+$") -> <shunt>`), match.Options{})
	done := make(chan string)
	for range 8 {
		go func() { done <- ids(table.Find(get("/abc", "Cookie", "a=xx"))) }()
	}
	for range 8 {
		if got := <-done; got != "a" {
			t.Errorf("%s, want a", got)
		}
	}
}
