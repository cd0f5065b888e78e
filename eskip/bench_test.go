package eskip_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/eskip"
)

// sizes are those of a large and of a very large fleet.
var sizes = []int{20_000, 120_000}

// tableText returns a document of n routes like those compiled from Ingresses and RouteGroups: some 370 bytes each, a third of
// them redirects beside a route of the same host. The same n always gives the same document.
func tableText(n int) string {
	rnd := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte('\n')
		}
		writeRoute(&b, rnd, i)
	}
	return b.String()
}

func writeRoute(b *strings.Builder, rnd *rand.Rand, i int) {
	team, app := i/3%211, i/3%1999
	host := fmt.Sprintf("app-%d[.]team-%d[.]example[.]org", app, team)
	id := fmt.Sprintf("team_%d__app_%d__app_%d_team_%d_example_org___%d__app_%d", team, app, app, team, i%3, i/3)
	pathRegexp, subtree := "", fmt.Sprintf(` && PathSubtree("/api/v%d/items")`, i%7)
	if i%4 == 0 {
		pathRegexp, subtree = fmt.Sprintf(` && PathRegexp(/^\/api\/v%d\/(items|orders)/)`, i%7), ""
	}
	if i%3 == 2 {
		fmt.Fprintf(b, `kube_%s_https_redirect: Host(/^(%s[.]?(:[0-9]+)?)$/)%s && Header("X-Forwarded-Proto", "http")%s`+
			` -> redirectTo(308, "https:") -> <shunt>;`, id, host, pathRegexp, subtree)
		return
	}
	fmt.Fprintf(b, `kube_%s: Host(/^(%s[.]?(:[0-9]+)?)$/)%s%s`, id, host, pathRegexp, subtree)
	if i%5 == 0 {
		fmt.Fprintf(b, ` && Traffic(0.%d)`, 1+i%9)
	}
	fmt.Fprintf(b, ` -> setRequestHeader("X-Request-Team", "team-%d")`, team)
	if i%2 == 0 {
		b.WriteString(` -> clusterRatelimit("checkout", 100, "1m") -> enableAccessLog(4, 5)`)
	}
	switch {
	case i%9 == 0:
		fmt.Fprintf(b, ` -> "http://app-%d.team-%d.svc.cluster.local:8080";`, app, team)
	default:
		b.WriteString(` -> <powerOfRandomNChoices`)
		for range 2 + rnd.IntN(5) {
			fmt.Fprintf(b, `, "http://10.%d.%d.%d:8080?zone=eu-central-1%c"`,
				rnd.IntN(16), rnd.IntN(256), rnd.IntN(256), 'a'+rune(rnd.IntN(3)))
		}
		b.WriteString(`>;`)
	}
}

func forSizes(b *testing.B, f func(b *testing.B, text string)) {
	for _, n := range sizes {
		text := tableText(n)
		b.Run(fmt.Sprintf("routes=%d", n), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			f(b, text)
		})
	}
}

func BenchmarkParse(b *testing.B) {
	forSizes(b, func(b *testing.B, text string) {
		for b.Loop() {
			if _, err := eskip.Parse(text); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkPrint(b *testing.B) {
	forSizes(b, func(b *testing.B, text string) {
		routes := eskip.MustParse(text)
		for b.Loop() {
			if len(eskip.String(routes...)) != len(text) {
				b.Fatal("the text of the benchmark is not in printed form")
			}
		}
	})
}

func BenchmarkFprint(b *testing.B) {
	forSizes(b, func(b *testing.B, text string) {
		routes := eskip.MustParse(text)
		for b.Loop() {
			eskip.Fprint(io.Discard, eskip.PrettyPrintInfo{}, routes...)
		}
	})
}

// BenchmarkParseOne is what the compiler does for each route that it makes.
func BenchmarkParseOne(b *testing.B) {
	text := tableText(2)
	text, _, _ = strings.Cut(text, "\n")
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := eskip.Parse(text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPrintOne(b *testing.B) {
	routes := eskip.MustParse(tableText(2))
	b.SetBytes(int64(len(routes[0].String())))
	b.ReportAllocs()
	var buf []byte
	for b.Loop() {
		buf = eskip.AppendRoute(buf[:0], routes[0])
	}
}

func BenchmarkEqLists(b *testing.B) {
	forSizes(b, func(b *testing.B, text string) {
		x, y := eskip.MustParse(text), eskip.MustParse(text)
		for b.Loop() {
			if !eskip.EqLists(x, y) {
				b.Fatal("not equal")
			}
		}
	})
}

func BenchmarkCopyRoutes(b *testing.B) {
	forSizes(b, func(b *testing.B, text string) {
		routes := eskip.MustParse(text)
		for b.Loop() {
			eskip.CopyRoutes(routes)
		}
	})
}
