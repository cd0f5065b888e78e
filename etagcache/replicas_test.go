package etagcache_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/table"
)

// source is what the replicas read: a content that changes, and a revision that grows with or without it.
type source struct {
	tb       testing.TB
	revision uint64
	content  int // number of the content; a larger one is newer unless it flips back
	newest   int // the largest number so far
	tables   map[int]*table.Table
}

func newSource(tb testing.TB) *source {
	return &source{tb: tb, revision: 100, tables: make(map[int]*table.Table)}
}

func (s *source) change(content int) {
	s.revision++
	s.content = content
	s.newest = max(s.newest, content)
}

// table returns the table of the current content.
func (s *source) table() *table.Table {
	t, ok := s.tables[s.content]
	if !ok {
		text := fmt.Sprintf("r: Path(\"/%d\") -> <shunt>;", s.content)
		var err error
		t, err = table.New([]table.Route{{ID: "r", Text: text}}, 0, start)
		if err != nil {
			s.tb.Fatal(err)
		}
		s.tables[s.content] = t
	}
	return t.WithRevision(s.revision)
}

// replica is a route server with its own polls.
type replica struct {
	*etagcache.Cache
	handler  http.Handler
	end      func(*table.Table, table.Read)
	read     *table.Table // of the poll in progress; nil if there is none
	rechecks int
}

func newReplica(tb testing.TB) *replica {
	r := &replica{}
	r.Cache = newCache(tb, etagcache.Config{Recheck: func() { r.rechecks++ }})
	r.handler = r.Handler()
	return r
}

// start begins a poll that sees the current state of the source.
func (r *replica) start(s *source) {
	if r.read == nil {
		r.end, r.read = r.Begin(), s.table()
	}
}

// finish ends the poll.
func (r *replica) finish() {
	if r.read == nil {
		return
	}
	shown := r.read
	if cur := r.Current(); cur != nil && cur.Digest() == shown.Digest() {
		shown = cur
	}
	r.end(shown, at(r.read.Revision(), start))
	r.read = nil
}

func (r *replica) poll(s *source) {
	r.read = nil
	r.start(s)
	r.finish()
}

// skipper is a client as old proxies are: it names the ETag of the last 200, and ignores everything that a 304 says.
type skipper struct {
	tb      testing.TB
	etag    string
	content int // that it holds; -1 before the first
	fetched []int
}

// ask sends one request, and checks what holds in every history: a 200 has other content than the client. It returns the
// revisions in the old and the new ETag, which are equal after a 304.
func (c *skipper) ask(r *replica) (before, after uint64) {
	c.tb.Helper()
	req := httptest.NewRequest(http.MethodGet, "/routes", nil)
	req.Header.Set("Accept-Encoding", "gzip")
	if c.etag != "" {
		req.Header.Set("If-None-Match", c.etag)
	}
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, req)
	before = revisionOf(c.etag)
	switch w.Code {
	case http.StatusNotModified:
		if c.etag == "" {
			c.tb.Fatal("304 to a client that named nothing")
		}
		return before, before
	case http.StatusOK:
	default:
		c.tb.Fatalf("status %d", w.Code)
	}
	text := decode(c.tb, w.Header().Get("Content-Encoding"), w.Body.Bytes())
	var content int
	if _, err := fmt.Sscanf(text, "r: Path(\"/%d\")", &content); err != nil {
		c.tb.Fatalf("body %q: %v", text, err)
	}
	if content == c.content {
		c.tb.Fatalf("downloaded content %d again: named %s, got %s", content, c.etag, w.Header().Get("Etag"))
	}
	c.etag, c.content = w.Header().Get("Etag"), content
	c.fetched = append(c.fetched, content)
	return before, revisionOf(c.etag)
}

func revisionOf(etag string) uint64 {
	_, rest, _ := strings.Cut(etag, ".")
	rest, _, _ = strings.Cut(rest, "+")
	n, _ := strconv.ParseUint(strings.Trim(rest, `"`), 10, 64)
	return n
}

// A typical fleet: two replicas that poll every 3 s, out of step, behind a round-robin; a Skipper that also polls every 3 s; a
// source that changes every few seconds and never returns to an earlier state.
func TestSkipperBehindTwoReplicasNeverGoesBackNorDownloadsTwice(t *testing.T) {
	const (
		tick   = 100 * time.Millisecond
		period = 3 * time.Second
		length = 10 * time.Minute
	)
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 1))
		src := newSource(t)
		replicas := []*replica{newReplica(t), newReplica(t)}
		for _, r := range replicas {
			r.poll(src)
		}
		client := &skipper{tb: t, content: -1}
		phase := func() time.Duration { return time.Duration(rng.Int64N(int64(period/tick))) * tick }
		offsets := []time.Duration{phase(), phase(), phase()}
		due := func(now time.Duration, who int) bool { return (now+offsets[who])%period == 0 }
		turn := 0
		for now := time.Duration(0); now < length; now += tick {
			if rng.IntN(40) == 0 {
				src.change(src.newest + 1)
			}
			for i, r := range replicas {
				if due(now, i) {
					r.poll(src)
				}
			}
			if !due(now, 2) {
				continue
			}
			held := client.content
			client.ask(replicas[turn%2])
			turn++
			if client.content < held {
				t.Fatalf("seed %d at %v: went back from content %d to %d", seed, now, held, client.content)
			}
		}
		if len(client.fetched) < 20 {
			t.Errorf("seed %d: only %d downloads: the test tests nothing", seed, len(client.fetched))
		}
		seen := make(map[int]bool)
		for _, content := range client.fetched {
			if seen[content] {
				t.Errorf("seed %d: content %d was downloaded twice", seed, content)
			}
			seen[content] = true
		}
	}
}

// The example of the package documentation: a content that changes and then changes back.
func TestFlipDoesNotSendAClientToAndFro(t *testing.T) {
	src := newSource(t)
	one, two := newReplica(t), newReplica(t)
	one.poll(src) // A at 100
	src.change(1)
	two.poll(src) // B at 101
	src.change(0)
	one.poll(src) // A at 102; this replica never saw B

	client := &skipper{tb: t, content: -1}
	client.ask(two)
	for range 3 {
		client.ask(one)
		client.ask(two)
	}
	if want := []int{1, 0}; len(client.fetched) != 2 || client.fetched[1] != 0 {
		t.Errorf("downloaded %v, want %v", client.fetched, want)
	}
	if two.rechecks != 1 {
		t.Errorf("the replica that is behind asked for %d early polls, want 1", two.rechecks)
	}
}

func TestClientFollowsARestoredSource(t *testing.T) {
	src := newSource(t)
	r := newReplica(t)
	src.change(5)
	r.poll(src)
	client := &skipper{tb: t, content: -1}
	client.ask(r)

	src.revision, src.content = 40, 2 // etcd was restored from a backup, and the route server was restarted
	r = newReplica(t)
	r.poll(src)
	client.ask(r)
	if client.content != 5 {
		t.Fatalf("the client went back before the replica made sure")
	}
	client.ask(r)
	if client.content != 5 || r.rechecks != 1 {
		t.Fatalf("holds %d after %d rechecks, want 5 after 1", client.content, r.rechecks)
	}
	r.poll(src)
	client.ask(r)
	if client.content != 2 {
		t.Errorf("holds %d after the poll that settles it, want 2", client.content)
	}
}

// FuzzHistories plays random histories of a source, two replicas and a Skipper: each byte is one event. Until the source is
// restored, the client's revision only grows; at the end, when everything is quiet, it holds what the source has.
func FuzzHistories(f *testing.F) {
	f.Add([]byte{0, 4, 6, 12, 14, 5, 1, 4, 6, 5, 5, 12, 14, 5, 5})
	f.Add([]byte{4, 6, 1, 12, 14, 9, 4, 6, 5, 5, 5, 5, 5})
	f.Add([]byte{0, 4, 0, 6, 5, 12, 14, 5, 255, 4, 6, 5, 12, 14, 5})
	f.Fuzz(func(t *testing.T, events []byte) {
		if len(events) > 200 {
			t.Skip("long histories find nothing that short ones do not")
		}
		src := newSource(t)
		replicas := []*replica{newReplica(t), newReplica(t)}
		for _, r := range replicas {
			r.poll(src)
		}
		client := &skipper{tb: t, content: -1}
		restored, turn := false, 0
		ask := func() {
			before, after := client.ask(replicas[turn%2])
			turn++
			if !restored && after < before {
				t.Fatalf("went back from revision %d to %d (events %v)", before, after, events)
			}
		}
		for _, event := range events {
			r := replicas[event>>3&1]
			switch event & 7 {
			case 0:
				src.change(src.newest + 1)
			case 1:
				src.change(int(event >> 3 & 1)) // flip back and forth
			case 2, 3:
				src.revision++ // something else was written
			case 4:
				r.start(src)
			case 5:
				ask()
			case 6:
				r.finish()
			case 7:
				if event == 255 {
					src.revision, src.content, restored = 100+uint64(len(events)), 0, true
				}
			}
		}
		for range 3 {
			for _, r := range replicas {
				r.poll(src)
			}
			ask()
			ask()
		}
		if client.content != src.content {
			t.Fatalf("holds %d in the end, the source has %d (events %v)", client.content, src.content, events)
		}
	})
}
