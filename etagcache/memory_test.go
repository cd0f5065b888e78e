package etagcache_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/table"
)

// heap returns the bytes in use.
func heap() float64 {
	for range 3 { // the second run empties pools
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// TestHistoryIsNearlyFree publishes 64 versions that each change one route of a hundred, anywhere. What is kept of them beside
// the last one is the ids of changed routes and the compressed pieces of the version before: at most a third of the text of a table. Deltas
// from the first one still work.
func TestHistoryIsNearlyFree(t *testing.T) {
	c, err := etagcache.New(etagcache.Config{}) // with its own encoders, which the garbage collector frees
	if err != nil {
		t.Fatal(err)
	}
	before := heap()
	first := benchTableOf(3_000)
	poll(c, first, 1, start)
	digest, text := first.Digest(), float64(first.Bytes())

	rng := rand.New(rand.NewPCG(1, 1))
	list := first.Routes()
	first = nil
	for i := range uint64(64) {
		var upserts []*table.Route
		for _, b := range list.Blocks() {
			for _, r := range b.Routes() {
				if rng.IntN(100) == 0 {
					own := *r
					own.Text = own.ID + strings.Replace(own.Text[len(own.ID):], " -> ", " -> changed() -> ", 1) // its own memory
					if strings.Contains(r.Text, "changed()") {
						own.Text = own.ID + strings.Replace(r.Text[len(own.ID):], "changed() -> ", "", 1)
					}
					own.ID = own.Text[:len(own.ID)]
					upserts = append(upserts, &own)
				}
			}
		}
		if list, err = list.With(upserts, nil); err != nil {
			t.Fatal(err)
		}
		poll(c, table.Of(list, i+2, start), i+2, start)
	}
	after := heap() - before

	before = heap() // a cache with the last version only
	alone, err := etagcache.New(etagcache.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if list, err = (table.List{}).With(slices.Collect(list.All()), nil); err != nil {
		t.Fatal(err)
	}
	poll(alone, table.Of(list, 65, start), 65, start)
	list = table.List{}
	one := heap() - before
	runtime.KeepAlive(alone)
	share := (after - one) / text
	t.Logf("one table: %.2f MiB of %.2f MiB text; with 64 versions: %.2f MiB, %+.1f %%", one/(1<<20), text/(1<<20), after/(1<<20), 100*share)
	if share > 1.0/3 {
		t.Errorf("history of 64 versions costs %.1f %% of the text of one table, want at most a third", 100*share)
	}
	if w := askDelta(c.Handler(), "/routes", "gzip", `"`+digest.String()+`.1"`); w.Code != 226 {
		t.Errorf("status %d for a client that has the first version, want a delta", w.Code)
	}
	runtime.KeepAlive(c)
}

// TestStalledReadersShareTheirTables has readers that read nothing while the table changes, in each encoding. They keep alive the
// differences between the versions and a buffer per reader, not a body per version or reader.
func TestStalledReadersShareTheirTables(t *testing.T) {
	s := newServer(t, false)
	before := heap()
	first := benchTableOf(12_000)
	list, text := first.Routes(), float64(first.Bytes())
	const (
		versions = 40
		readers  = 4 * versions
	)
	one := 0.0
	for v := range uint64(versions) {
		changed, err := table.Parse(fmt.Sprintf(`%s: Path("/version/%d") -> <shunt>;`, list.Blocks()[0].Routes()[0].ID, v))
		if err != nil {
			t.Fatal(err)
		}
		if list, err = list.With([]*table.Route{&changed[0]}, nil); err != nil {
			t.Fatal(err)
		}
		poll(s.cache, table.Of(list, v+1, start), v+1, start)
		if v == 0 {
			one = heap() - before
		}
		for i := range readers / versions {
			c := s.dial(t)
			t.Cleanup(func() { c.conn.Close() })
			if err := c.conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
				t.Fatal(err)
			}
			encoding := []string{"identity", "gzip", "zstd", "identity"}[i]
			if _, err := fmt.Fprintf(c.conn, "GET /routes HTTP/1.1\r\nHost: x\r\nAccept-Encoding: %s\r\n\r\n", encoding); err != nil {
				t.Fatal(err)
			}
			if _, err := c.br.ReadByte(); err != nil { // the response has begun
				t.Fatal(err)
			}
		}
	}
	grown := heap() - before - one
	t.Logf("one table: %.1f MiB; %d readers of %d versions: %+.1f MiB", one/(1<<20), readers, versions, grown/(1<<20))
	// A reader has a buffer of 64 KiB and, in this process, both ends of a connection.
	if limit := text*3/4 + readers*128<<10; grown > limit {
		t.Errorf("%d readers who take nothing keep %.1f MiB alive, want at most %.1f", readers, grown/(1<<20), limit/(1<<20))
	}
}
