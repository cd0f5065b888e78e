package compute_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/match"
	"github.com/routesrv/routesrv/match/report"
	"github.com/routesrv/routesrv/shadowdiff"
	"github.com/routesrv/routesrv/test/scale"
)

// BenchmarkReplay replays a log at the production scale. No request occurs twice, so that each is looked up in both tables.
func BenchmarkReplay(b *testing.B) {
	compiler := mustCompiler(b)
	var text strings.Builder
	for r := range compiler.Compile(scale.Snapshot(1)).Routes.All() {
		text.WriteString(r.Text)
		text.WriteByte('\n')
	}
	routes := eskip.MustParse(text.String())
	text.Reset()

	var log bytes.Buffer
	unescape := strings.NewReplacer("[.]", ".", "^(", "", "[.]?(:[0-9]+)?)$", "")
	const requests = 100_000
	for n, at := 0, 0; n < requests; at = (at + 37) % len(routes) {
		r := routes[at]
		if len(r.HostRegexps) == 0 || strings.Contains(r.HostRegexps[0], "|") {
			continue
		}
		host := unescape.Replace(r.HostRegexps[0])
		fmt.Fprintf(&log, "10.0.0.9 - - [24/Nov/2026:10:00:00 +0000] \"GET %s/%d HTTP/1.1\" 200 17 \"-\" \"curl/8.5.0\" 3 %s - -\n", r.Path, n, host)
		n++
	}
	replayed := report.NewReplay(routes, routes, match.Options{NormalizeHost: true}, shadowdiff.Ignore{})
	b.ResetTimer()
	for b.Loop() {
		if err := replayed.Read(b.Context(), bytes.NewReader(log.Bytes()), nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(requests)*float64(b.N)/b.Elapsed().Seconds(), "requests/s")
	if r := replayed.Report(); r.Different() > 0 || r.Skipped > 0 {
		b.Errorf("%d differ, %d skipped: %s", r.Different(), r.Skipped, r.FirstSkipped)
	}
}
