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

// manyRoutes need some ninety writes.
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
		name      string
		takes     time.Duration // for each write
		ranges    string
		wantAfter time.Duration // 0: it has the whole body
	}{
		{name: "takes nothing", takes: time.Hour, wantAfter: maxSilence},
		{name: "takes nothing of a range", takes: time.Hour, ranges: "bytes=0-", wantAfter: maxSilence},
		{name: "slow, but fast enough", takes: 2 * time.Second},
		{name: "too slow", takes: 20 * time.Second, wantAfter: maxBodyTime},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var seen Seen
				c, err := New(Config{Saw: func(s Seen) { seen = s }})
				if err != nil {
					t.Fatal(err)
				}
				c.Publish(sendTable(t, manyRoutes, 1))
				began := time.Now()
				w := newSlowReader(tt.takes)
				req := httptest.NewRequest(http.MethodGet, "/routes", nil)
				if tt.ranges != "" {
					req.Header.Set("Range", tt.ranges)
				}
				c.Handler().ServeHTTP(w, req)
				if took := time.Since(began); tt.wantAfter > 0 && took != tt.wantAfter {
					t.Errorf("cut after %v, want %v", took, tt.wantAfter)
				}
				if whole := w.Body.Len() == c.Current().Bytes(); whole != (tt.wantAfter == 0) {
					t.Errorf("%d bytes sent of %d", w.Body.Len(), c.Current().Bytes())
				}
				if has := !seen.Sent.Digest.IsZero(); has != (tt.wantAfter == 0) {
					t.Errorf("the client counts as sent the whole table: %v", has)
				}
			})
		})
	}
}
