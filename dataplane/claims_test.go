package dataplane_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/table"
)

const wait = 10 * time.Second

// world is a cache with a table of revision 10, and an upstream server that answers as the test says.
type claimsWorld struct {
	t        *testing.T
	cache    *etagcache.Cache
	resolver *dataplane.Claims
	served   *table.Table

	answer   atomic.Pointer[opinion]
	mu       sync.Mutex
	asked    []uint64 // the revisions that the upstream server was asked about
	rechecks int
}

// opinion is the upstream server's opinion of any claim.
type opinion func(table.Digest, uint64) (dataplane.Opinion, error)

// note runs f under the lock.
func (w *claimsWorld) note(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// revisions returns the revisions that the upstream server was asked about.
func (w *claimsWorld) revisions() (asked []uint64) {
	w.note(func() { asked = slices.Clone(w.asked) })
	return asked
}

// thinks changes the opinion of the upstream server.
func (w *claimsWorld) thinks(o opinion) { w.answer.Store(&o) }

func playClaims(t *testing.T, test func(w *claimsWorld)) {
	synctest.Test(t, func(t *testing.T) {
		w := &claimsWorld{t: t, served: tableOf(t, "served", 10)}
		var err error
		if w.cache, err = etagcache.New(etagcache.Config{Recheck: func() { w.resolver.Claimed() }}); err != nil {
			t.Fatal(err)
		}
		w.cache.Begin()(w.served, table.Read{Newest: 10, At: time.Now()})
		w.resolver = dataplane.NewClaims(w.cache, w.Ask, w.Recheck, wait, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.resolver.Run(ctx)
		}()
		test(w)
		cancel()
		<-done
	})
}

// Ask and Recheck are those of a client of the upstream server.
func (w *claimsWorld) Ask(_ context.Context, digest table.Digest, revision uint64) (dataplane.Opinion, error) {
	w.note(func() { w.asked = append(w.asked, revision) })
	return (*w.answer.Load())(digest, revision)
}

func (w *claimsWorld) Recheck() { w.note(func() { w.rechecks++ }) }

func tableOf(t *testing.T, id string, revision uint64) *table.Table {
	t.Helper()
	tab, err := table.New([]table.Route{{ID: id, Text: id + ": * -> <shunt>;"}}, revision, time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// claim sends the request of a client that has another table, and returns the status.
func (w *claimsWorld) claim(id string, revision uint64) int {
	w.t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/routes", nil)
	r.Header.Set("A-Im", "none")
	r.Header.Set("If-None-Match", fmt.Sprintf(`"%s.%d"`, tableOf(w.t, id, revision).Digest(), revision))
	rec := httptest.NewRecorder()
	w.cache.Handler().ServeHTTP(rec, r)
	synctest.Wait()
	return rec.Code
}

// TestAnswers: what a client gets, by the answer of the upstream server.
func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		answer   string
		opinion  func(w *claimsWorld) (dataplane.Opinion, error)
		status   int // that the client gets then
		rechecks int
	}{
		{"send", func(w *claimsWorld) (dataplane.Opinion, error) {
			return dataplane.Opinion{Digest: w.served.Digest(), Revision: 12}, nil
		}, http.StatusOK, 0},
		{"other", func(w *claimsWorld) (dataplane.Opinion, error) {
			return dataplane.Opinion{Digest: tableOf(w.t, "next", 13).Digest(), Revision: 13}, nil
		}, http.StatusNotModified, 1},
		{"keep", func(*claimsWorld) (dataplane.Opinion, error) { return dataplane.Opinion{Keep: true}, nil }, http.StatusNotModified, 0},
		{"none", func(*claimsWorld) (dataplane.Opinion, error) {
			return dataplane.Opinion{}, errors.New("away")
		}, http.StatusNotModified, 0},
	} {
		t.Run(c.answer, func(t *testing.T) {
			playClaims(t, func(w *claimsWorld) {
				w.thinks(func(table.Digest, uint64) (dataplane.Opinion, error) { return c.opinion(w) })
				if got := w.claim("later", 12); got != http.StatusNotModified {
					t.Errorf("status %d before anybody was asked, want 304", got)
				}
				w.note(func() {
					if len(w.asked) != 1 || w.rechecks != c.rechecks {
						t.Errorf("asked %d times, %d rechecks", len(w.asked), w.rechecks)
					}
				})
				if got := w.claim("later", 12); got != c.status {
					t.Errorf("status %d, want %d", got, c.status)
				}
			})
		})
	}
}

// TestAClaimIsAskedAboutAgain: a claim is asked about until it is decided, after about the interval, and later if the upstream
// server does not answer.
func TestAClaimIsAskedAboutAgain(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		least time.Duration
		most  time.Duration
	}{"answered": {nil, wait / 2, wait * 3 / 2}, "away": {errors.New("away"), 5 * wait / 2, 5 * wait * 3 / 2}} {
		t.Run(name, func(t *testing.T) {
			playClaims(t, func(w *claimsWorld) {
				w.thinks(func(table.Digest, uint64) (dataplane.Opinion, error) {
					return dataplane.Opinion{Keep: true}, c.err
				})
				w.claim("later", 12)
				time.Sleep(c.least - time.Millisecond)
				synctest.Wait()
				if len(w.revisions()) != 1 {
					t.Errorf("asked %d times after %v", len(w.revisions()), c.least)
				}
				time.Sleep(c.most - c.least + 2*time.Millisecond)
				synctest.Wait()
				if len(w.revisions()) < 2 {
					t.Errorf("asked %d times after %v, want 2 or more", len(w.revisions()), c.most)
				}
				w.thinks(func(table.Digest, uint64) (dataplane.Opinion, error) {
					return dataplane.Opinion{Digest: w.served.Digest(), Revision: 12}, nil
				})
				time.Sleep(10 * wait)
				synctest.Wait()
				asked := len(w.revisions())
				time.Sleep(time.Hour)
				synctest.Wait()
				if len(w.revisions()) != asked {
					t.Error("asked about what is decided")
				}
			})
		})
	}
}

// TestAFewClaimsAreAskedAboutAtATime: in the end all of them are.
func TestAFewClaimsAreAskedAboutAtATime(t *testing.T) {
	playClaims(t, func(w *claimsWorld) {
		w.thinks(func(table.Digest, uint64) (dataplane.Opinion, error) {
			return dataplane.Opinion{Keep: true}, nil
		})
		for i := range uint64(4) { // as many as one address may have
			w.claim(fmt.Sprint("later", i), 12+i)
		}
		time.Sleep(20 * wait)
		synctest.Wait()
		seen := map[uint64]bool{}
		asked := w.revisions()
		for _, revision := range asked {
			seen[revision] = true
		}
		if len(seen) != 4 {
			t.Errorf("asked about %v", seen)
		}
		// One round at once, for the first claim alone, and then one of all four in each interval of at most one and a half.
		if len(asked) < 1+4*13 || len(asked) > 4+4*41 {
			t.Errorf("asked %d times in 20 intervals", len(asked))
		}
	})
}
