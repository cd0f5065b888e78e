package dataplane_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/table"
)

// largeTable makes a realistic table: some 370 bytes per route, 46 MB for 124,000 routes.
func largeTable(b *testing.B, n int, revision uint64) *table.Table {
	b.Helper()
	routes := make([]table.Route, n)
	for i := range routes {
		id := fmt.Sprintf("kube_rg__team_%03d__application_%06d__all__0_0", i%400, i)
		host := fmt.Sprintf("^(application-%06d[.]example[.]org[.]?(:[0-9]+)?)$", i)
		routes[i] = table.Route{ID: id, Hosts: host, Text: fmt.Sprintf(
			`%s: Host("%s") && PathSubtree("/") -> status(%d) -> disableAccessLog(2, 3, 404, 429) -> flowId("reuse") -> unverifiedAuditLog("sub") -> `+
				`corsOrigin() -> consecutiveBreaker(15, "30s") -> `+
				`<roundRobin, "http://10.%d.%d.1:8080", "http://10.%d.%d.2:8080", "http://10.%d.%d.3:8080">;`,
			id, host, 200+revision*uint64(1/(i%1000+1)), i%200, i%250, i%200, i%250, i%200, i%250)}
	}
	t, err := table.New(routes, revision, time.Now())
	if err != nil {
		b.Fatal(err)
	}
	return t
}

// prepared is a RoundTripper that returns one body after another, without a network.
type prepared struct {
	answers []http.Response
	bodies  [][]byte
	next    int
}

func (p *prepared) RoundTrip(*http.Request) (*http.Response, error) {
	resp := p.answers[p.next]
	resp.Body = io.NopCloser(bytes.NewReader(p.bodies[p.next]))
	p.next = (p.next + 1) % len(p.answers)
	return &resp, nil
}

func (p *prepared) add(t *table.Table) {
	body := encode("zstd", t.Text())
	p.answers = append(p.answers, http.Response{
		StatusCode: http.StatusOK, ContentLength: int64(len(body)),
		Header: http.Header{
			"Etag": {`"` + t.Digest().String() + `"`}, "X-Count": {strconv.Itoa(t.Len())}, "Content-Encoding": {"zstd"}, "X-Revision": {"0"},
		},
	})
	p.bodies = append(p.bodies, body)
}

// BenchmarkApply is a poll that finds a new table: decode, verify, parse, guard, commit; with and without the file.
func BenchmarkApply(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000, 124_000} {
		transport := &prepared{}
		first, second := largeTable(b, n, 0), largeTable(b, n, 1)
		transport.add(first)
		transport.add(second)
		for _, file := range []bool{false, true} {
			b.Run(fmt.Sprintf("routes=%d/file=%v", n, file), func(b *testing.B) {
				cfg := dataplane.Config{URLs: []string{"http://a"}, Transport: transport}
				if file {
					cfg.StateDir = b.TempDir()
				}
				c, err := dataplane.New(cfg)
				if err != nil {
					b.Fatal(err)
				}
				mustPoll(b, c)
				b.SetBytes(int64(first.Bytes()))
				b.ReportAllocs()
				for b.Loop() {
					mustPoll(b, c)
				}
			})
		}
	}
}

// BenchmarkDelta is a poll that returns a delta of one route: decode, apply, verify, guard, commit, without the file.
func BenchmarkDelta(b *testing.B) {
	for _, n := range []int{1000, 10_000, 124_000} {
		b.Run(fmt.Sprintf("routes=%d", n), func(b *testing.B) { benchmarkDelta(b, n) })
	}
}

func benchmarkDelta(b *testing.B, n int) {
	first := largeTable(b, n, 0)
	changed := slices.Collect(first.Routes().All())
	r := *changed[n/2]
	r.Text = strings.Replace(r.Text, "status(200)", "status(201)", 1)
	r.ID = r.Text[:len(r.ID)]
	list, err := first.Routes().With([]*table.Route{&r}, nil)
	if err != nil {
		b.Fatal(err)
	}
	second := table.Of(list, 1, time.Now())
	transport := &prepared{}
	transport.add(first)
	transport.addDelta(first, second)
	transport.addDelta(second, first)
	c, err := dataplane.New(dataplane.Config{URLs: []string{"http://a"}, Transport: transport, UpdateMode: dataplane.Poll})
	if err != nil {
		b.Fatal(err)
	}
	mustPoll(b, c)
	b.SetBytes(int64(first.Bytes()))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		transport.next = 1 + i%2
		mustPoll(b, c)
	}
	b.StopTimer()
	if c.Status().FailedTotal > 0 || c.Current().Digest() != first.Digest() && c.Current().Digest() != second.Digest() {
		b.Fatalf("%+v", c.Status())
	}
}

func (p *prepared) addDelta(from, to *table.Table) {
	delta := table.Delta{Base: from.Digest(), Target: to.Digest(), Revision: to.Revision(), Count: to.Len()}
	for _, is := range table.Changes(from.Routes(), to.Routes()) { // which have the same ids
		delta.Upserts = append(delta.Upserts, is.Text)
	}
	d, err := delta.AppendJSON(nil)
	if err != nil {
		panic(err)
	}
	body := encode("zstd", d)
	p.answers = append(p.answers, http.Response{
		StatusCode: http.StatusIMUsed, ContentLength: int64(len(body)),
		Header: http.Header{
			"Etag": {`"` + to.Digest().String() + `"`}, "X-Count": {strconv.Itoa(to.Len())}, "Content-Encoding": {"zstd"},
			"Im": {"eskip-delta"}, "Content-Type": {"application/json"}, "Delta-Base": {`"` + from.Digest().String() + `"`},
			"X-Revision": {"0"},
		},
	})
	p.bodies = append(p.bodies, body)
}

// BenchmarkHash is the minimal cost of a new table: one digest over its text.
func BenchmarkHash(b *testing.B) {
	t := largeTable(b, 124_000, 0)
	b.SetBytes(int64(t.Bytes()))
	for b.Loop() {
		if _, err := t.WriteTo(sha256.New()); err != nil {
			b.Fatal(err)
		}
	}
}
