//go:build !race

package dataplane_test

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/table"
)

// pace is a server whose streams do not last.
type pace struct {
	tab     *table.Table
	watch   func(http.ResponseWriter, *http.Request, *table.Table)
	streams atomic.Int64
	polls   atomic.Int64

	mu    sync.Mutex
	last  time.Time     // of the last stream
	pause time.Duration // the longest between streams
}

func (p *pace) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/routes/watch" {
		p.streams.Add(1)
		p.asked()
		p.watch(w, r, p.tab)
		return
	}
	p.polls.Add(1)
	serveTable(w, r, p.tab, "identity")
}

// asked notes the time of a request for a stream, or that nobody asked until now, and returns the longest pause.
func (p *pace) asked() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); !p.last.IsZero() {
		p.pause, p.last = max(p.pause, now.Sub(p.last)), now
	} else {
		p.last = now
	}
	return p.pause
}

// events answers with a stream and ends it. The stream has an event that says that the table is current, followed by the given
// events.
func events(text string) func(http.ResponseWriter, *http.Request, *table.Table) {
	return func(w http.ResponseWriter, _ *http.Request, tab *table.Table) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "id: %s\nevent: current\ndata: {}\n\n%s", etagOf(tab, ""), text)
	}
}

func refused(status int, advice string) func(http.ResponseWriter, *http.Request, *table.Table) {
	return func(w http.ResponseWriter, _ *http.Request, _ *table.Table) {
		w.Header().Set("Retry-After", advice)
		w.WriteHeader(status)
	}
}

// TestServersDoNotSetThePace: whatever a server says about when to come back, a client comes at most once a second and at least
// every ten minutes, and its log names the cause.
func TestServersDoNotSetThePace(t *testing.T) {
	const during = 20 * time.Minute
	for name, watch := range map[string]func(http.ResponseWriter, *http.Request, *table.Table){
		"reconnect at once":         events("event: reconnect\ndata: {\"after_ms\":0}\n\n"),
		"reconnect without advice":  events("event: reconnect\ndata: {}\n\n"),
		"reconnect, negative":       events("event: reconnect\ndata: {\"after_ms\":-1}\n\n"),
		"reconnect, for weeks":      events("event: reconnect\ndata: {\"after_ms\":4294967295}\n\n"),
		"reconnect, beyond numbers": events("event: reconnect\ndata: {\"after_ms\":1e300}\n\n"),
		"retry at once":             events("retry: 0\n\n"),
		"retry in a millisecond":    events("retry: 1\ndata: x\n\n"),
		"retry in weeks":            events("retry: 4294967295\ndata: x\n\n"),
		"stream ends":               events(""),
		"does not verify":           events("id: x\nevent: delta\ndata: {}\n\n"),
		"another table each time":   events("event: fetch\nid: \"" + fmt.Sprintf("%064x", 1) + "\"\ndata:\n\n"),
		"busy, at once":             refused(http.StatusTooManyRequests, "0"),
		"busy, negative":            refused(http.StatusTooManyRequests, "-1"),
		"busy, for ever":            refused(http.StatusTooManyRequests, "4294967295"),
		"busy, until a far date":    refused(http.StatusTooManyRequests, "Fri, 31 Dec 2999 23:59:59 GMT"),
		"busy, since a date":        refused(http.StatusTooManyRequests, "Fri, 31 Dec 1999 00:00:00 GMT"),
		"fails, at once":            refused(http.StatusServiceUnavailable, "0"),
		"fails, for ever":           refused(http.StatusServiceUnavailable, "99999999999999999999"),
		"no table, for ever":        refused(http.StatusNotFound, "65535"),
	} {
		for _, follow := range []dataplane.UpdateMode{dataplane.Auto, dataplane.Stream} {
			t.Run(name+"/"+string(follow), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &pace{tab: newTable(t, 10, "a"), watch: watch}
					net := &localNetwork{}
					net.Set("a", s)
					w := newWorld(t, 0)
					w.cfg.URLs, w.cfg.Transport, w.cfg.UpdateMode = []string{"http://a"}, net, follow
					w.cfg.Random = func() float64 { return 0 } // the shortest possible times
					stop := w.run(w.client())
					time.Sleep(during)
					stop()
					net.Wait()
					streams, polls := s.streams.Load(), s.polls.Load()
					if most := int64(during/time.Second) + 2; streams > most || polls > most {
						t.Errorf("%d streams and %d polls in %v, want at most one of each in a second", streams, polls, during)
					}
					if pause := s.asked(); streams == 0 || pause > 10*time.Minute {
						t.Errorf("%d streams in %v with %v between two of them, want one every ten minutes at least", streams, during, pause)
					}
					// Each of a few messages at most once in five minutes.
					if n, most := w.log.lines(), 6*int(during/(5*time.Minute)); n > most {
						t.Errorf("%d lines in the log in %v, want at most %d", n, during, most)
					}
				})
			})
		}
	}
}

// TestClientsSpreadWhatTheyAreToldAtOnce: all clients get the same advice, and come back at different times.
func TestClientsSpreadWhatTheyAreToldAtOnce(t *testing.T) {
	second := func(t *testing.T, watch func(http.ResponseWriter, *http.Request, *table.Table), random float64) (at time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			s := &pace{tab: newTable(t, 10, "a")}
			s.watch = func(w http.ResponseWriter, r *http.Request, tab *table.Table) {
				if s.streams.Load() == 2 {
					at = time.Since(begun)
				}
				watch(w, r, tab)
			}
			net := &localNetwork{}
			net.Set("a", s)
			w := newWorld(t, 0)
			w.cfg.URLs, w.cfg.Transport, w.cfg.UpdateMode = []string{"http://a"}, net, dataplane.Stream
			w.cfg.Random = func() float64 { return random }
			stop := w.run(w.client())
			time.Sleep(5 * time.Minute)
			stop()
			net.Wait()
		})
		return at
	}
	for name, watch := range map[string]func(http.ResponseWriter, *http.Request, *table.Table){
		"reconnect at once": events("event: reconnect\ndata: {\"after_ms\":0}\n\n"),
		"reconnect later":   events("event: reconnect\ndata: {\"after_ms\":20000}\n\n"),
		"retry":             events("retry: 20000\ndata: x\n\n"),
		"retry after":       refused(http.StatusServiceUnavailable, "20"),
		"busy":              refused(http.StatusTooManyRequests, "20"),
	} {
		t.Run(name, func(t *testing.T) {
			early, late := second(t, watch, 0), second(t, watch, 0.99)
			if late-early < 200*time.Millisecond {
				t.Errorf("the next stream comes after %v by the least chance and %v by the greatest, want them apart", early, late)
			}
		})
	}
}
