package etagcache

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/routesrv/routesrv/table"
)

// slowReader is the response to a reader that needs some time for each write, unless the deadline comes first.
type slowReader struct {
	*httptest.ResponseRecorder
	takes time.Duration

	mu       sync.Mutex
	deadline time.Time
	changed  chan struct{}
}

func newSlowReader(takes time.Duration) *slowReader {
	return &slowReader{ResponseRecorder: httptest.NewRecorder(), takes: takes, changed: make(chan struct{})}
}

func (r *slowReader) SetWriteDeadline(t time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deadline = t
	close(r.changed)
	r.changed = make(chan struct{})
	return nil
}

func (r *slowReader) Write(p []byte) (int, error) {
	taken := time.NewTimer(r.takes)
	defer taken.Stop()
	for {
		r.mu.Lock()
		deadline, changed := r.deadline, r.changed
		r.mu.Unlock()
		late := time.NewTimer(time.Until(deadline))
		select {
		case <-late.C:
			return 0, fmt.Errorf("write: %w", os.ErrDeadlineExceeded)
		case <-changed:
			late.Stop()
		case <-taken.C:
			late.Stop()
			return r.ResponseRecorder.Write(p)
		}
	}
}

// manyRoutes need some forty writes.
const manyRoutes = 30_000

// sendTable is a table with n routes of about 100 bytes each.
func sendTable(t *testing.T, n int, revision uint64) *table.Table {
	t.Helper()
	routes := make([]table.Route, n)
	for i := range routes {
		id := fmt.Sprintf("r%05d", i)
		routes[i] = table.Route{ID: id, Text: fmt.Sprintf(`%s: Path("/%d/%060d") -> <shunt>;`, id, revision, i)}
	}
	tab, err := table.New(routes, revision, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

func TestStalledReadersAreCut(t *testing.T) {
	for _, tt := range []struct {
		name       string
		takes      time.Duration // for each write
		superseded time.Duration // when a newer table is published; 0: never
		path       string
		ranges     string
		wantCut    string
		wantAfter  time.Duration
	}{
		{name: "takes nothing", takes: time.Hour, wantCut: cutSilent, wantAfter: maxSilence},
		{name: "takes nothing of a range", takes: time.Hour, ranges: "bytes=0-", wantCut: cutSilent, wantAfter: maxSilence},
		{name: "slow, but fast enough", takes: 5 * time.Second},
		{name: "too slow", takes: 20 * time.Second, wantCut: cutSlow, wantAfter: maxBodyTime},
		// The write during which the new table was published ends at 126 s; from then on the reader has a minute.
		{name: "slow for a table that is old", takes: 9 * time.Second, superseded: 118 * time.Second,
			wantCut: cutSlow, wantAfter: 126*time.Second + maxTableTime},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, err := New(Config{})
				if err != nil {
					t.Fatal(err)
				}
				c.Publish(sendTable(t, manyRoutes, 1))
				if tt.superseded > 0 {
					time.AfterFunc(tt.superseded, func() { c.Publish(sendTable(t, manyRoutes, 2)) })
				}
				began := time.Now()
				w := newSlowReader(tt.takes)
				req := httptest.NewRequest(http.MethodGet, "/routes", nil)
				if tt.ranges != "" {
					req.Header.Set("Range", tt.ranges)
				}
				c.Handler().ServeHTTP(w, req)
				took := time.Since(began)
				for _, reason := range cutReasons {
					want := 0.0
					if reason == tt.wantCut {
						want = 1
					}
					if got := testutil.ToFloat64(c.cfg.Metrics.BodiesCut.WithLabelValues(reason)); got != want {
						t.Errorf("%v bodies cut because of %s, want %v", got, reason, want)
					}
				}
				if tt.wantCut == "" {
					if w.Body.Len() != c.Current().Bytes() {
						t.Errorf("%d bytes sent, want %d", w.Body.Len(), c.Current().Bytes())
					}
					return
				}
				if took != tt.wantAfter {
					t.Errorf("cut after %v, want %v", took, tt.wantAfter)
				}
				if len(c.sends.open) != 0 {
					t.Errorf("%d bodies are still known", len(c.sends.open))
				}
			})
		})
	}
}

// The reader that has stalled for longest is dropped to make room; readers that make progress are not affected, however many
// there are.
func TestStalledReaderMakesRoomForOthersAtItsAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := New(Config{})
		if err != nil {
			t.Fatal(err)
		}
		c.Publish(sendTable(t, 100, 1))
		get := func(takes time.Duration) bool {
			w := newSlowReader(takes)
			c.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/routes", nil))
			return w.Body.Len() == c.Current().Bytes()
		}
		var readers sync.WaitGroup
		var mu sync.Mutex
		arrived := 0
		for range 3 * maxSendsPerAddress { // healthy, all at once
			readers.Go(func() {
				if get(time.Second) {
					mu.Lock()
					defer mu.Unlock()
					arrived++
				}
			})
		}
		readers.Wait()
		if arrived != 3*maxSendsPerAddress {
			t.Errorf("%d of %d healthy readers have the table", arrived, 3*maxSendsPerAddress)
		}
		for range maxSendsPerAddress {
			readers.Go(func() { get(time.Hour) })
		}
		time.Sleep(stallTime + time.Second)
		if !get(time.Millisecond) {
			t.Error("a healthy reader beside those who stall has no table")
		}
		if got := testutil.ToFloat64(c.cfg.Metrics.BodiesCut.WithLabelValues(cutForAnother)); got != 1 {
			t.Errorf("%v readers made room, want 1", got)
		}
		readers.Wait()
	})
}
