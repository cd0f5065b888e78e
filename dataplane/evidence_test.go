package dataplane_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/table"
)

// serveNamed answers with the table, or with 304 to a request that names it, and with the given headers.
func serveNamed(tab *table.Table, header func(http.Header)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Etag", etagOf(tab, ""))
		header(w.Header())
		if r.Header.Get("If-None-Match") != "" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = w.Write(tab.Text())
	}
}

func sourceRead(at time.Time) func(http.Header) {
	return func(h http.Header) {
		h.Set("X-Revision", "10")
		h.Set("X-Source-Read", at.UTC().Format(time.RFC3339Nano))
	}
}

// TestSourceIsReadWhenAnAnswerProvesIt: the first answer has the table; a minute later the second says that it is current.
func TestSourceIsReadWhenAnAnswerProvesIt(t *testing.T) {
	const minute = time.Minute
	date := func(offset time.Duration) func(http.Header) {
		return func(h http.Header) { h.Set("Date", time.Now().Add(offset).UTC().Format(http.TimeFormat)) }
	}
	nothing := func(http.Header) {}
	unread := func(h http.Header) { h.Set("X-Revision", "10") }
	for name, c := range map[string]struct {
		first, second func(http.Header)
		age           time.Duration // after the second answer; negative if it is unknown
	}{
		"ours reads again":              {func(h http.Header) { sourceRead(time.Now())(h) }, func(h http.Header) { sourceRead(time.Now())(h) }, 0},
		"ours has not read again":       {func(h http.Header) { sourceRead(time.Now())(h) }, func(h http.Header) { sourceRead(time.Now().Add(-minute))(h) }, minute},
		"304 of ours without headers":   {func(h http.Header) { sourceRead(time.Now())(h) }, nothing, minute},
		"304 of ours with a date alone": {func(h http.Header) { sourceRead(time.Now())(h) }, date(0), minute},
		"304 of ours, cannot be parsed": {func(h http.Header) { sourceRead(time.Now())(h) }, func(h http.Header) {
			date(0)(h)
			h.Set("X-Source-Read", "now")
		}, minute},
		"304 of ours, far in the future": {func(h http.Header) { sourceRead(time.Now())(h) }, func(h http.Header) { sourceRead(time.Now().Add(time.Hour))(h) }, minute},
		"ours does not know":             {unread, func(h http.Header) { unread(h); date(0)(h) }, -1},
		"future from the beginning":      {func(h http.Header) { sourceRead(time.Now().Add(time.Hour))(h) }, func(h http.Header) { sourceRead(time.Now().Add(time.Hour))(h) }, -1},
		"clock a little fast":            {func(h http.Header) { sourceRead(time.Now().Add(5 * time.Second))(h) }, func(h http.Header) { sourceRead(time.Now().Add(5 * time.Second))(h) }, 0},
		"another kind, by its date":      {date(0), date(0), 0},
		"another kind, from a cache":     {date(0), date(-minute), minute},
		"no date at all":                 {nothing, nothing, -1},
		"date far in the future":         {date(time.Hour), date(time.Hour), -1},
		"date that is none":              {nothing, func(h http.Header) { h.Set("Date", "today") }, -1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1)
				tab := newTable(t, 10, "a")
				client := w.client()
				w.servers[0].fail(serveNamed(tab, c.first))
				mustPoll(t, client)
				time.Sleep(minute)
				w.servers[0].fail(serveNamed(tab, c.second))
				mustPoll(t, client)
				holds(t, client, tab)
				a := client.Status().Applied
				switch age := time.Since(a.SourceRead); {
				case c.age < 0 && !a.SourceRead.IsZero():
					t.Errorf("the source was read %v ago, want that nothing proves it", age)
				case c.age >= 0 && age.Truncate(time.Second) != c.age:
					t.Errorf("the source was read %v ago, want %v", age, c.age)
				}
				if !a.Confirmed.Equal(time.Now()) {
					t.Errorf("confirmed at %v, want now: the answer names the table all the same", a.Confirmed)
				}
			})
		})
	}
}

// TestStreamThatTellsNoTimeAges: an event "current" is evidence by its content, and not because it arrived.
func TestStreamThatTellsNoTimeAges(t *testing.T) {
	for name, says := range map[string]string{
		"nothing": `{}`, "no time": `{"source_read":"soon"}`, "a time to come": `{"source_read":"2999-01-01T00:00:00Z"}`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 0)
				tab := newTable(t, 10, "a")
				begun := time.Now()
				stream := func(rw http.ResponseWriter, r *http.Request) {
					rw.Header().Set("Content-Type", "text/event-stream")
					fmt.Fprintf(rw, "id: %s\nevent: current\ndata: {\"source_read\":%q}\n\n", etagOf(tab, ""), begun.UTC().Format(time.RFC3339))
					for {
						fmt.Fprintf(rw, "id: %s\nevent: current\ndata: %s\n\n", etagOf(tab, ""), says)
						_ = http.NewResponseController(rw).Flush()
						select {
						case <-r.Context().Done():
							return
						case <-time.After(15 * time.Second):
						}
					}
				}
				net := &localNetwork{}
				mux := http.NewServeMux()
				mux.HandleFunc("/routes", serveNamed(tab, sourceRead(begun)))
				mux.HandleFunc("/routes/watch", stream)
				net.Set("a", mux)
				w.cfg.URLs, w.cfg.Transport, w.cfg.UpdateMode = []string{"http://a"}, net, dataplane.Auto
				c := w.client()
				stop := w.run(c)
				time.Sleep(10 * time.Minute)
				s := c.Status()
				stop()
				net.Wait()
				if s.Transport != "stream" || s.Stream.Connected.IsZero() || s.Stream.LastEvent.IsZero() {
					t.Errorf("status %+v, want a stream that says that the table is current", s.Stream)
				}
				if s.AgeSeconds < 599 {
					t.Errorf("the source is said to be read %v s ago, want 10 minutes", s.AgeSeconds)
				}
			})
		})
	}
}
