package compute_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/match"
	"github.com/routesrv/routesrv/test/scale"
)

// scaleRoutes are the routes of a generated cluster; factor 1 has about 124,000.
func scaleRoutes(b *testing.B, factor float64) []*eskip.Route {
	b.Helper()
	compiler := mustCompiler(b)
	var text strings.Builder
	for r := range compiler.Compile(scale.Snapshot(factor)).Routes.All() {
		text.WriteString(r.Text)
		text.WriteByte('\n')
	}
	routes, err := eskip.Parse(text.String())
	if err != nil {
		b.Fatal(err)
	}
	return routes
}

func BenchmarkMatchTable(b *testing.B) {
	for _, factor := range []float64{0.1, 1} {
		routes := scaleRoutes(b, factor)
		b.Run(fmt.Sprintf("routes=%d", len(routes)), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				match.New(routes, match.Options{})
			}
		})
	}
}

func BenchmarkMatch(b *testing.B) {
	routes := scaleRoutes(b, 1)
	start := time.Now()
	table, refusals := match.New(routes, match.Options{})
	b.Logf("%d routes, %d refused, table made in %v", len(routes), len(refusals), time.Since(start))
	requests := scaleRequests(routes)
	b.Run("spread", func(b *testing.B) {
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			table.Find(requests[i%len(requests)])
			i++
		}
	})
	var slowest time.Duration
	var worst match.Request
	for _, r := range requests {
		start := time.Now()
		table.Find(r)
		if d := time.Since(start); d > slowest {
			slowest, worst = d, r
		}
	}
	b.Run("slowest", func(b *testing.B) {
		b.Logf("%s %s", worst.Host, worst.Target)
		for b.Loop() {
			table.Find(worst)
		}
	})
	b.Run("no-host", func(b *testing.B) {
		for b.Loop() {
			table.Find(match.Request{Host: "nowhere.example.org", Target: "/"})
		}
	})
}

// scaleRequests are requests for hosts and paths of the routes.
func scaleRequests(routes []*eskip.Route) []match.Request {
	unescape := strings.NewReplacer("[.]", ".", "[.]?(:[0-9]+)?", "", "^(", "", ")$", "", "$", "", "^", "")
	var all []match.Request
	for i := 0; i < len(routes); i += 37 {
		r := routes[i]
		req := match.Request{Method: r.Method, Target: "/", Host: "x", RemoteAddr: "10.0.0.1", Time: time.Unix(1e9, 0), Header: map[string][]string{}}
		if len(r.HostRegexps) > 0 {
			req.Host, _, _ = strings.Cut(unescape.Replace(strings.ReplaceAll(r.HostRegexps[0], "[.]?(:[0-9]+)?", "")), "|")
		}
		if r.Path != "" {
			req.Target = strings.NewReplacer(":", "x", "*", "y").Replace(r.Path)
		}
		if len(r.PathRegexps) > 0 {
			path, _, _ := strings.Cut(unescape.Replace(r.PathRegexps[0]), "(")
			req.Target = "/" + strings.Trim(path, "/^")
		}
		for name, val := range r.Headers {
			req.Header[name] = []string{val}
		}
		all = append(all, req)
	}
	return all
}
