package etagcache

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/routesrv/routesrv/table"
)

// TestZonesAndDeltasAreMadeOnceForAll: whoever waits for one gets the same one.
func TestZonesAndDeltasAreMadeOnceForAll(t *testing.T) {
	c := cacheOfStreams(t, 0)
	var base table.Digest
	for version := range 2 {
		text := fmt.Sprintf(`a: * -> status(%d) -> <shunt>; b: * -> <random, %s, "http://4?zone=y">;`, version,
			strings.Repeat(`"http://3?zone=z", `, 2)+`"http://3?zone=z"`)
		for i := range 30 { // a delta is not larger than the table
			text += fmt.Sprintf("c%d: * -> <shunt>;", i)
		}
		routes, err := table.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		tab, err := table.New(routes, 0, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		if c.Publish(tab); version == 0 {
			base = tab.Digest()
		}
	}
	st := c.state.Load()
	zones, deltas := make([]*variant, 300), make([]*delta, 300)
	var clients sync.WaitGroup
	for i := range zones {
		clients.Go(func() {
			x := exchange{cache: c}
			x.show(st)
			zones[i], deltas[i] = st.version.variant("z"), x.deltaFrom(base)
		})
	}
	clients.Wait()
	if zones[0] == st.version.full || deltas[0] == nil {
		t.Fatal("neither a zone nor a delta was made")
	}
	for i := range zones {
		if zones[i] != zones[0] || deltas[i] != deltas[0] {
			t.Fatalf("client %d got others than client 0", i)
		}
	}
}
