package match_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"regexp"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/match"
)

// The slow evaluator looks at every route for every request and implements the rules of the reference in the most obvious way. It
// shares no code with the package.

const (
	fails = iota
	unknown
	holds
)

// slowFind returns the sorted ids of all routes that may win; "" stands for no route.
func slowFind(routes []*eskip.Route, o match.Options, in match.Request) []string {
	req := httptest.NewRequest(in.Method, in.Target, nil)
	req.Host = in.Host
	for name, lines := range in.Header {
		for _, l := range lines {
			req.Header.Add(name, l)
		}
	}
	if o.NormalizeHost {
		h := strings.ToLower(req.Host)
		if host, _, err := net.SplitHostPort(h); err == nil {
			h = host
		}
		req.Host = strings.TrimSuffix(h, ".")
	}
	clean := slowClean(req.URL.Path)
	tree := clean
	if o.IgnoreTrailingSlash && len(tree) > 1 {
		tree = strings.TrimSuffix(tree, "/")
	}

	// The dice of TrafficSegment: one number of each interval in which the outcome of every route is constant.
	dice := []float64{0, 1}
	for _, r := range routes {
		for _, p := range r.Predicates {
			if p.Name == "TrafficSegment" {
				dice = append(dice, p.Args[0].(float64), p.Args[1].(float64))
			}
		}
	}
	sort.Float64s(dice)
	possible := map[string]bool{}
	for i := 1; i < len(dice); i++ {
		if dice[i] > dice[i-1] {
			slowPlay(routes, o, req, in, clean, tree, (dice[i]+dice[i-1])/2, possible)
		}
	}
	var ids []string
	for id := range possible {
		ids = append(ids, id)
	}
	sort.Strings(ids)
	return ids
}

// compiledBefore caches the expressions of all tests: compiling them would take most of the time.
var compiledBefore sync.Map

func compiled(expr string) *regexp.Regexp {
	rx, ok := compiledBefore.Load(expr)
	if !ok {
		rx, _ = compiledBefore.LoadOrStore(expr, regexp.MustCompile(expr))
	}
	return rx.(*regexp.Regexp)
}

type slowHit struct {
	id    string
	rank  string
	weigh int
	value int
}

func slowPlay(routes []*eskip.Route, o match.Options, req *http.Request, in match.Request, clean, tree string, dice float64, possible map[string]bool) {
	var hits []slowHit
	for _, r := range routes {
		value := slowValue(r, req, in, clean, dice)
		if value == fails {
			continue
		}
		for _, rank := range slowRanks(r, o, tree) {
			hits = append(hits, slowHit{r.Id, rank, slowWeight(r), value})
		}
	}
	sort.SliceStable(hits, func(i, j int) bool {
		if hits[i].rank != hits[j].rank {
			return hits[i].rank < hits[j].rank
		}
		return hits[i].weigh > hits[j].weigh
	})
	for len(hits) > 0 {
		end := false
		n := 0
		for ; n < len(hits) && hits[n].rank == hits[0].rank && hits[n].weigh == hits[0].weigh; n++ {
			possible[hits[n].id] = true
			end = end || hits[n].value == holds
		}
		if end {
			return
		}
		hits = hits[n:]
	}
	possible[""] = true
}

// slowClean normalizes a path segment by segment.
func slowClean(p string) string {
	var out []string
	parts := strings.Split(p, "/")
	for _, s := range parts {
		if s == ".." && len(out) > 0 {
			out = out[:len(out)-1]
		}
		if s != "" && s != "." && s != ".." {
			out = append(out, s)
		}
	}
	slash := len(p) > 2 && strings.HasSuffix(p, "/") || parts[len(parts)-1] == "."
	if len(out) == 0 {
		return "/"
	}
	if slash {
		return "/" + strings.Join(out, "/") + "/"
	}
	return "/" + strings.Join(out, "/")
}

// slowRanks returns the position of the route in the search for a path: literal segments before wildcards before the rest of the
// path, from the left; routes without a path come last.
func slowRanks(r *eskip.Route, o match.Options, path string) []string {
	var patterns []string
	if r.Path != "" {
		p := slowClean(r.Path)
		if o.IgnoreTrailingSlash && p != "/" {
			p = strings.TrimSuffix(p, "/")
		}
		patterns = append(patterns, p)
	}
	for _, p := range r.Predicates {
		if p.Name == "PathSubtree" && p.Args[0] != "" {
			base := regexp.MustCompile(`/[*][^/]*$`).ReplaceAllString(slowClean(p.Args[0].(string)), "")
			base = strings.TrimSuffix(base, "/")
			if base == "" || !o.IgnoreTrailingSlash {
				patterns = append(patterns, base+"/")
			}
			if base != "" {
				patterns = append(patterns, base)
			}
			patterns = append(patterns, base+"/**")
		}
	}
	if len(patterns) == 0 {
		return []string{"z"}
	}
	var ranks []string
	for _, p := range patterns {
		if rank, ok := slowRank(p, path); ok {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

func slowRank(pattern, path string) (string, bool) {
	rank := ""
	for {
		switch {
		case pattern == "" && path == "":
			return rank, true
		case pattern == "" || path == "":
			return "", false
		case strings.HasPrefix(pattern, "/*"):
			return rank + "c", len(path) > 1
		}
		var p, s string
		p, pattern = slowSegment(pattern)
		s, path = slowSegment(path)
		switch {
		case p == s && !strings.HasPrefix(p, ":"):
			rank += "a"
		case strings.HasPrefix(p, ":") && s != "":
			rank += "b"
		default:
			return "", false
		}
	}
}

func slowSegment(p string) (first, rest string) {
	if i := strings.Index(p[1:], "/"); i >= 0 {
		return p[1 : i+1], p[i+1:]
	}
	return p[1:], ""
}

func slowWeight(r *eskip.Route) int {
	w := len(r.HostRegexps) + len(r.PathRegexps)
	if r.Method != "" {
		w++
	}
	names := map[string]bool{}
	for n := range r.Headers {
		names["="+textproto.CanonicalMIMEHeaderKey(n)] = true
	}
	for n := range r.HeaderRegexps {
		names["~"+textproto.CanonicalMIMEHeaderKey(n)] = true
	}
	w += len(names)
	for _, p := range r.Predicates {
		switch p.Name {
		case "Weight":
			w += int(math.Trunc(p.Args[0].(float64)))
		case "PathSubtree", "Any", "TrafficSegment":
		default:
			w++
		}
	}
	return w
}

func slowValue(r *eskip.Route, req *http.Request, in match.Request, clean string, dice float64) int {
	value := holds
	and := func(b bool) {
		if !b {
			value = fails
		}
	}
	for _, rx := range r.HostRegexps {
		and(compiled(rx).MatchString(req.Host))
	}
	for _, rx := range r.PathRegexps {
		and(compiled(rx).MatchString(clean))
	}
	and(r.Method == "" || r.Method == req.Method)
	for name, want := range r.Headers {
		and(slices.Contains(req.Header.Values(name), want))
	}
	for name, list := range r.HeaderRegexps {
		for _, rx := range list {
			and(slices.ContainsFunc(req.Header.Values(name), compiled(rx).MatchString))
		}
	}
	for _, p := range r.Predicates {
		switch v := slowPredicate(p, req, in, dice); {
		case v == fails:
			value = fails
		case v == unknown && value == holds:
			value = unknown
		}
	}
	return value
}

func slowPredicate(p *eskip.Predicate, req *http.Request, in match.Request, dice float64) int {
	is := func(b bool) int {
		if b {
			return holds
		}
		return fails
	}
	text := func(i int) string { return p.Args[i].(string) }
	switch p.Name {
	case "False":
		return fails
	case "HostAny":
		return is(slices.Contains(p.Args, any(req.Host)))
	case "Methods":
		return is(slices.ContainsFunc(p.Args, func(a any) bool { return strings.EqualFold(a.(string), req.Method) }))
	case "Cookie":
		c, err := req.Cookie(text(0))
		return is(err == nil && compiled(text(1)).MatchString(c.Value))
	case "QueryParam":
		if len(p.Args) == 1 {
			return is(req.URL.Query().Has(text(0)))
		}
		return is(slices.ContainsFunc(req.URL.Query()[text(0)], compiled(text(1)).MatchString))
	case "ClientIP", "Source", "SourceFromLast":
		from := in.RemoteAddr
		if xff := req.Header.Get("X-Forwarded-For"); p.Name == "Source" && net.ParseIP(strings.Split(xff, ",")[0]) != nil {
			from = strings.Split(xff, ",")[0]
		} else if last := strings.TrimSpace(xff[strings.LastIndex(xff, ",")+1:]); p.Name == "SourceFromLast" && net.ParseIP(last) != nil {
			from = last
		}
		if from == "" {
			return unknown
		}
		_, n, err := net.ParseCIDR(text(0))
		if err != nil {
			return is(net.ParseIP(text(0)).Equal(net.ParseIP(from)))
		}
		return is(n.Contains(net.ParseIP(from)))
	case "Traffic":
		if len(p.Args) == 3 && text(2) != "" {
			if c, err := req.Cookie(text(1)); err == nil {
				return is(c.Value == text(2))
			}
		}
		switch p.Args[0] {
		case 0.0:
			return fails
		case 1.0:
			return holds
		}
		return unknown
	case "TrafficSegment":
		return is(p.Args[0].(float64) <= dice && dice < p.Args[1].(float64))
	case "Shutdown":
		return unknown
	case "Before", "After":
		if in.Time.IsZero() {
			return unknown
		}
		t := time.Unix(int64(p.Args[0].(float64)), 0)
		return is(in.Time.Before(t) == (p.Name == "Before"))
	}
	return holds // True, Any, Weight, PathSubtree
}

// randomTable is a table of few words, so that its routes overlap.
func randomTable(rnd *rand.Rand, n int) string {
	pick := func(words ...string) string { return words[rnd.IntN(len(words))] }
	segment := func() string { return pick("a", "b", "c", ":x", ":", ":y", "a.b") }
	path := func() string {
		var b strings.Builder
		for range rnd.IntN(4) {
			b.WriteString(pick("/", "/", "/", "//", "/./") + segment())
		}
		b.WriteString(pick("", "", "/", "/**", "/*", "/*rest"))
		return pick("/", "") + b.String()
	}
	host := func() string {
		return pick(`^(shop[.]example[.]org[.]?(:[0-9]+)?)$`, `^(a[.]b[.]?(:[0-9]+)?|shop[.]example[.]org[.]?(:[0-9]+)?)$`,
			"^a[.]b$", "shop", "^(a[.]b)$", "", "^(a.b|c)$", "(?i)^A[.]B")
	}
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "r%d: *", i)
		switch rnd.IntN(6) {
		case 0, 1, 2:
			fmt.Fprintf(&b, " && Path(%q)", path())
		case 3, 4:
			fmt.Fprintf(&b, " && PathSubtree(%q)", path())
		}
		if rnd.IntN(3) > 0 {
			fmt.Fprintf(&b, " && Host(%q)", host())
		}
		if rnd.IntN(2) == 0 {
			fmt.Fprintf(&b, " && Weight(%s)", pick("1", "2.9", "-0.5", "-3", "7", "100"))
		}
		for range rnd.IntN(3) {
			b.WriteString(" && " + pick(
				`PathRegexp("^/a")`, `PathRegexp("/$")`, `Host("example")`, `HeaderRegexp("X-A", "1")`, `HeaderRegexp("x-b", "^2$")`, `Cookie("c", "^1$")`,
				`QueryParam("q")`, `QueryParam("q", "^1$")`, `Source("10.0.0.0/8")`, `SourceFromLast("10.1.2.3")`, `ClientIP("10.0.0.0/8")`,
				`Traffic(0)`, `Traffic(1)`, `Traffic(0.3)`, `Traffic(0.5, "c", "1")`, `Traffic(0.5, "c", "")`, `TrafficSegment(0, 0.5)`, `TrafficSegment(0.5, 1)`,
				`TrafficSegment(0.2, 0.7)`, `True()`, `False()`, `Shutdown()`, `Before(1000)`, `After(1000)`, `HostAny("a.b", "shop.example.org:80")`,
				`Methods("get", "POST")`, `Any()`))
		}
		if rnd.IntN(4) == 0 {
			b.WriteString(" && " + pick(`Method("GET")`, `Method("POST")`))
		}
		if rnd.IntN(4) == 0 {
			b.WriteString(" && " + pick(`Header("X-A", "1")`, `Header("x-b", "2")`))
		}
		b.WriteString(" -> <shunt>;\n")
	}
	return b.String()
}

func randomRequest(rnd *rand.Rand) match.Request {
	pick := func(words ...string) string { return words[rnd.IntN(len(words))] }
	r := match.Request{
		Method: pick("GET", "GET", "POST", "get", "FOO"), Header: map[string][]string{},
		Host:       pick("shop.example.org", "shop.example.org.:80", "SHOP.example.org", "a.b", "a.b:", "a.b..", "axb", "a.b:80", ""),
		RemoteAddr: pick("", "10.1.2.3", "192.168.0.1"),
	}
	for range rnd.IntN(5) {
		r.Target += pick("/", "/", "/", "//", "/./", "/../", "%2F") + pick("a", "b", "c", "z", "a.b", "%61", "..")
	}
	r.Target = "/" + strings.TrimPrefix(r.Target, "/") + pick("", "", "/", "?q=1", "?q", "/?q=2&q=1")
	if strings.HasPrefix(r.Target, "//") { // the slow evaluator would take this for a host
		r.Target = "/." + r.Target
	}
	for _, h := range [][]string{{"X-A", "1", "2"}, {"x-b", "2", "21"}, {"Cookie", "c=1", `c="1"; c=2`, "d=1; c=2"}, {"X-Forwarded-For", "10.9.9.9", "1.2.3.4, 10.1.2.3", "x", "10.1.2.3 ,1.2.3.4"}} {
		if rnd.IntN(2) == 0 {
			r.Header[h[0]] = []string{pick(h[1:]...)}
		}
	}
	if rnd.IntN(3) > 0 {
		r.Time = time.Unix(int64(998+rnd.IntN(4)), 0)
	}
	return r
}
