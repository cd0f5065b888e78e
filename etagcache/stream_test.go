package etagcache_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/table"
)

// event is one event as a client reads it.
type event struct{ name, id, data string }

// listener reads a stream.
type listener struct {
	t     testing.TB
	res   *http.Response
	lines *bufio.Reader
	held  *table.Table  // the table after the events so far
	table func() []byte // fetches the table that the stream is about
}

// readEvent reads the next event; comments and retry are returned as events without data.
func (l *listener) readEvent() (event, error) {
	var e event
	var data []string
	for {
		line, err := l.lines.ReadString('\n')
		if err != nil {
			return e, err
		}
		line = strings.TrimSuffix(line, "\n")
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			e.data = strings.Join(data, "\n")
			return e, nil
		case name == "":
			e.name = "comment"
		case name == "event":
			e.name = value
		case name == "id":
			e.id = value
		case name == "data":
			data = append(data, value)
		case name == "retry":
			e.name = "retry"
		default:
			return e, fmt.Errorf("line %q", line)
		}
	}
}

// next reads up to the next event with the name, applies the events on the way, and checks that every table is what its id says.
func (l *listener) next(name string) event {
	l.t.Helper()
	e, err := l.tryNext(name)
	if err != nil {
		l.t.Fatalf("waiting for %s: %v", name, err)
	}
	return e
}

// tryNext is next for streams that may have been dropped.
func (l *listener) tryNext(name string) (event, error) {
	l.t.Helper()
	for {
		e, err := l.readEvent()
		if err != nil {
			return e, err
		}
		l.apply(e)
		if e.name == name {
			return e, nil
		}
	}
}

func (l *listener) apply(e event) {
	l.t.Helper()
	switch e.name {
	case "fetch":
		l.held = parseTable(l.t, string(l.table()), 0, start)
	case "delta":
		d, err := table.ReadDelta(strings.NewReader(e.data), math.MaxInt64)
		if err != nil {
			l.t.Fatal(err)
		}
		if l.held, err = l.held.Apply(d, start, 1<<30); err != nil {
			l.t.Fatal(err)
		}
	default:
		return
	}
	if !strings.HasPrefix(e.id, `"`+l.held.Digest().String()) {
		l.t.Fatalf("event %s has id %s and leads to %s", e.name, e.id, l.held.Digest())
	}
}

// pipeTransport connects a client with a server in memory, so that both can be in a bubble.
func pipeTransport(t testing.TB, h http.Handler) *http.Transport {
	conns := make(chan net.Conn)
	ctx, cancel := context.WithCancel(context.Background())
	srv := &http.Server{Handler: h, ReadTimeout: time.Minute, WriteTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(pipeListener{ctx, conns})
	}()
	tr := &http.Transport{DisableCompression: true, DialContext: func(dial context.Context, _, _ string) (net.Conn, error) {
		client, server := net.Pipe()
		select {
		case conns <- server:
			return client, nil
		case <-dial.Done():
			return nil, dial.Err()
		}
	}}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		cancel()
		_ = srv.Close()
		<-done
	})
	return tr
}

type pipeListener struct {
	ctx   context.Context
	conns chan net.Conn
}

func (l pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}
func (l pipeListener) Close() error   { return nil }
func (l pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// listen opens a stream. The client ends with ctx.
func listen(t testing.TB, ctx context.Context, tr http.RoundTripper, url, encoding, last string) *listener {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if encoding != "" {
		req.Header.Set("Accept-Encoding", encoding)
	}
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	res, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	l := &listener{t: t, res: res, table: func() []byte {
		u := *req.URL
		u.Path, u.RawQuery = strings.TrimSuffix("/routes/"+u.Query().Get("zone"), "/"), ""
		res, err := tr.RoundTrip(&http.Request{Method: http.MethodGet, URL: &u, Header: http.Header{}})
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("GET %s: %s, %v", u.Path, res.Status, err)
		}
		return text
	}}
	body := io.Reader(res.Body)
	if res.Header.Get("Content-Encoding") == "gzip" {
		if body, err = gzip.NewReader(res.Body); err != nil {
			t.Fatal(err)
		}
	}
	l.lines = bufio.NewReaderSize(body, 1<<20)
	return l
}

const watchURL = "http://cache/routes/watch"

// streaming runs a test in a bubble with a cache that has a table.
func streaming(t *testing.T, cfg etagcache.Config, test func(t *testing.T, ctx context.Context, c *etagcache.Cache, tr *http.Transport)) {
	synctest.Test(t, func(t *testing.T) {
		if cfg.MaxStreams == 0 {
			cfg.MaxStreams = 100
		}
		c := newCache(t, cfg)
		ctx, cancel := context.WithCancel(t.Context())
		tr := pipeTransport(t, c.Handler())
		test(t, ctx, c, tr)
		cancel()
		synctest.Wait()
	})
}

func TestStreamBringsTheClientToEveryTable(t *testing.T) {
	for _, encoding := range []string{"", "gzip", "zstd, gzip"} {
		t.Run(encoding, func(t *testing.T) {
			streaming(t, etagcache.Config{}, func(t *testing.T, ctx context.Context, c *etagcache.Cache, tr *http.Transport) {
				first := manyRoutes(t, 0, 1)
				poll(c, first, 1, time.Now())
				l := listen(t, ctx, tr, watchURL, encoding, "")
				if got := l.res.Header.Get("Content-Type"); got != "text/event-stream" || l.res.Header.Get("X-Accel-Buffering") != "no" {
					t.Errorf("content type %q, headers %v", got, l.res.Header)
				}
				if e, _ := l.readEvent(); e.name != "retry" {
					t.Errorf("the stream begins with %+v, want retry", e)
				}
				if e, _ := l.readEvent(); e.name != "fetch" {
					t.Fatalf("the first event is %s, want fetch", e.name)
				} else {
					l.apply(e)
				}
				e := l.next("current")
				var f struct {
					Revision uint64
					Count    int
					Read     string `json:"source_read"`
				}
				if err := json.Unmarshal([]byte(e.data), &f); err != nil || f.Revision != 1 || f.Count != many || f.Read == "" {
					t.Errorf("current says %s, error %v", e.data, err)
				}
				for i := range uint64(10) {
					tab := manyRoutes(t, int(i)*20+1, i+2)
					poll(c, tab, i+2, time.Now())
					if e := l.next("current"); l.held.Digest() != tab.Digest() || !strings.HasPrefix(e.id, `"`+tab.Digest().String()) {
						t.Fatalf("version %d: the client is at %s, current says %s", i, l.held.Digest(), e.id)
					}
				}
			})
		})
	}
}

func TestStreamResumes(t *testing.T) {
	streaming(t, etagcache.Config{}, func(t *testing.T, ctx context.Context, c *etagcache.Cache, tr *http.Transport) {
		first, second := manyRoutes(t, 0, 1), manyRoutes(t, 1, 2)
		poll(c, first, 1, time.Now())
		poll(c, second, 2, time.Now())
		for _, tt := range []struct{ name, last, want string }{
			{"current", fmt.Sprintf(`"%s.2+zstd"`, second.Digest()), "current"},
			{"older", fmt.Sprintf(`"%s.1"`, first.Digest()), "delta"},
			{"unknown", fmt.Sprintf(`"%s.1"`, manyRoutes(t, 9, 9).Digest()), "fetch"},
			{"of a zone", fmt.Sprintf(`"%s.1"`, first.Zone("a").Digest()), "fetch"},
			{"nonsense", `nonsense`, "fetch"},
		} {
			l := listen(t, ctx, tr, watchURL, "gzip", tt.last)
			l.held = first
			if e, _ := l.readEvent(); e.name != "retry" {
				t.Errorf("%s: begins with %+v", tt.name, e)
			}
			if e, err := l.readEvent(); err != nil || e.name != tt.want {
				t.Errorf("%s: the first event is %s, error %v, want %s", tt.name, e.name, err, tt.want)
			} else {
				l.apply(e)
			}
		}
	})
}

// A client with a newer table is not sent an older one, until a read has shown that the source went back.
func TestStreamDoesNotSendAClientBack(t *testing.T) {
	streaming(t, etagcache.Config{}, func(t *testing.T, ctx context.Context, c *etagcache.Cache, tr *http.Transport) {
		old, newer := manyRoutes(t, 0, 5), manyRoutes(t, 1, 9)
		poll(c, old, 5, time.Now())
		last := fmt.Sprintf(`"%s.9"`, newer.Digest())
		l := listen(t, ctx, tr, watchURL, "", last)
		l.held = newer
		if e := l.next("current"); e.id != last {
			t.Errorf("current names %s, want the newer table %s", e.id, last)
		}
		poll(c, newer, 9, time.Now()) // this replica has caught up
		e := l.next("current")
		if !strings.HasPrefix(e.id, `"`+newer.Digest().String()) || l.held.Digest() != newer.Digest() {
			t.Errorf("current names %s after the replica has caught up", e.id)
		}

		ahead := manyRoutes(t, 7, 20)
		m := listen(t, ctx, tr, watchURL, "", fmt.Sprintf(`"%s.20"`, ahead.Digest()))
		m.held = ahead
		m.next("current")
		again(c, table.Read{Oldest: 10, Newest: 10, Consistent: true, At: time.Now()})
		m.next("fetch") // the consistent read has shown that there is nothing newer
		if m.held.Digest() != newer.Digest() {
			t.Errorf("the client is at %s, want %s", m.held.Digest(), newer.Digest())
		}
	})
}

func TestStreamOfAZone(t *testing.T) {
	streaming(t, etagcache.Config{}, func(t *testing.T, ctx context.Context, c *etagcache.Cache, tr *http.Transport) {
		poll(c, manyRoutes(t, 0, 1), 1, time.Now())
		l := listen(t, ctx, tr, watchURL+"?zone=a", "gzip", "")
		l.next("current")
		tab := manyRoutes(t, 3, 2)
		poll(c, tab, 2, time.Now())
		l.next("delta")
		if want := tab.Zone("a"); l.held.Digest() != want.Digest() {
			t.Errorf("the client is at %s, want that of the zone %s", l.held.Digest(), want.Digest())
		}
	})
}

// TestEncodingOfAStream: zstd is not available for streams, so a client that prefers it gets its next choice.
func TestEncodingOfAStream(t *testing.T) {
	streaming(t, etagcache.Config{}, func(t *testing.T, ctx context.Context, c *etagcache.Cache, tr *http.Transport) {
		poll(c, manyRoutes(t, 0, 1), 1, time.Now())
		for accepted, want := range map[string]string{
			"": "", "zstd": "", "gzip": "gzip", "zstd, gzip": "gzip", "zstd, gzip;q=0.001": "gzip", "zstd, gzip;q=0": "", "*": "gzip",
			"zstd;q=0.5, identity;q=0.1": "", "gzip;q=0.1, identity": "", "gzip;q": "",
		} {
			l := listen(t, ctx, tr, watchURL, accepted, "")
			if got := l.res.Header.Get("Content-Encoding"); got != want {
				t.Errorf("to a client that accepts %q the stream is encoded as %q, want %q", accepted, got, want)
			}
			l.next("current")
		}
	})
}

// A table without routes is a table, too, however it is sent.
func TestStreamOfATableWithoutRoutes(t *testing.T) {
	for _, encoding := range []string{"", "gzip"} {
		streaming(t, etagcache.Config{}, func(t *testing.T, ctx context.Context, c *etagcache.Cache, tr *http.Transport) {
			poll(c, parseTable(t, "", 1, start), 1, time.Now())
			l := listen(t, ctx, tr, watchURL, encoding, "")
			if e := l.next("fetch"); e.data != "" || l.held.Len() != 0 {
				t.Errorf("the event is %+v", e)
			}
			l.next("current")
			one := parseTable(t, "a: * -> <shunt>;", 2, start)
			poll(c, one, 2, time.Now())
			l.next("current")
			other := listen(t, ctx, tr, watchURL, encoding, "")
			other.next("fetch")
			for name, l := range map[string]*listener{"the client of before": l, "a new one": other} {
				if l.held.Digest() != one.Digest() {
					t.Errorf("%s has %d routes, want one", name, l.held.Len())
				}
			}
		})
	}
}

func TestHeartbeatSaysHowFresh(t *testing.T) {
	streaming(t, etagcache.Config{}, func(t *testing.T, ctx context.Context, c *etagcache.Cache, tr *http.Transport) {
		tab := manyRoutes(t, 0, 1)
		poll(c, tab, 1, time.Now())
		begin := time.Now()
		l := listen(t, ctx, tr, watchURL, "", "")
		l.next("current")
		for i := range 4 {
			for n := range uint64(4) {
				time.Sleep(3 * time.Second)
				poll(c, tab, 2+n, time.Now())
			}
			e := l.next("current")
			if took := time.Since(begin); took != time.Duration(i+1)*15*time.Second {
				t.Errorf("heartbeat %d after %v", i, took)
			}
			if want := time.Now().UTC().Add(-3 * time.Second).Truncate(time.Second).Format("2006-01-02T15:04:"); !strings.Contains(e.data, want) {
				t.Errorf("heartbeat %d says %s, want a read of about %s", i, e.data, want)
			}
		}
		again(c, table.Read{Oldest: 60, Newest: 60, Held: true, At: time.Now()})
		if e := l.next("current"); !strings.Contains(e.data, `"state":"held"`) {
			t.Errorf("the table is held, and the stream says %s", e.data)
		}
	})
}

// A reader that stops coalesces: what it gets when it reads again is one delta to the table of that moment.
func TestSlowReaderGetsOneLargerDelta(t *testing.T) {
	streaming(t, etagcache.Config{}, func(t *testing.T, ctx context.Context, c *etagcache.Cache, tr *http.Transport) {
		poll(c, manyRoutes(t, 0, 1), 1, time.Now())
		l := listen(t, ctx, tr, watchURL, "", "")
		l.next("current")
		var last *table.Table
		for i := range uint64(50) { // the pipe has no buffer: nothing is read meanwhile
			last = manyRoutes(t, int(i)+1, i+2)
			poll(c, last, i+2, time.Now())
			synctest.Wait()
		}
		deltas := 0
		for l.held.Digest() != last.Digest() {
			e, err := l.readEvent()
			if err != nil {
				t.Fatal(err)
			}
			l.apply(e)
			if e.name == "delta" {
				deltas++
			}
		}
		if deltas > 3 {
			t.Errorf("%d deltas for 50 versions, want those that were on their way and one more", deltas)
		}
	})
}

func TestReaderThatTakesNothingIsDropped(t *testing.T) {
	metrics := etagcache.NewMetrics(nil)
	streaming(t, etagcache.Config{Metrics: metrics}, func(t *testing.T, ctx context.Context, c *etagcache.Cache, tr *http.Transport) {
		poll(c, manyRoutes(t, 0, 1), 1, time.Now())
		listen(t, ctx, tr, watchURL, "", "")
		time.Sleep(29 * time.Second)
		synctest.Wait()
		if n := testutil.ToFloat64(metrics.Streams); n != 1 {
			t.Errorf("%v streams are open before half a minute is over, want one", n)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := testutil.ToFloat64(metrics.Streams); n != 0 {
			t.Errorf("%v streams are open, want the one that takes nothing to be dropped", n)
		}
	})
}

func TestStreamsAreLimited(t *testing.T) {
	streaming(t, etagcache.Config{MaxStreams: 2}, func(t *testing.T, ctx context.Context, c *etagcache.Cache, tr *http.Transport) {
		if l := listen(t, ctx, tr, watchURL, "", ""); l.res.StatusCode != http.StatusNotFound || l.res.Header.Get("Retry-After") == "" {
			t.Errorf("status %d before the first table, want 404 with Retry-After", l.res.StatusCode)
		}
		poll(c, manyRoutes(t, 0, 1), 1, time.Now())
		for range 2 {
			l := listen(t, ctx, tr, watchURL, "", "")
			l.next("current")
		}
		third := listen(t, ctx, tr, watchURL, "", "")
		if third.res.StatusCode != http.StatusTooManyRequests || third.res.Header.Get("Retry-After") == "" {
			t.Errorf("status %d for one too many, want 429 with Retry-After", third.res.StatusCode)
		}
	})
}

func TestDrainedStreamsComeBackElsewhere(t *testing.T) {
	streaming(t, etagcache.Config{}, func(t *testing.T, ctx context.Context, c *etagcache.Cache, tr *http.Transport) {
		poll(c, manyRoutes(t, 0, 1), 1, time.Now())
		var clients sync.WaitGroup
		var mu sync.Mutex
		var ends []time.Duration
		begin := time.Now()
		for range 40 {
			l := listen(t, ctx, tr, watchURL, "gzip", "")
			l.next("current")
			clients.Go(func() {
				for {
					e, err := l.readEvent()
					if err != nil {
						t.Errorf("the stream ended without a word: %v", err)
						return
					}
					if e.name == "reconnect" {
						var after struct {
							MS *int `json:"after_ms"`
						}
						if err := json.Unmarshal([]byte(e.data), &after); err != nil || after.MS == nil || *after.MS > 1000 {
							t.Errorf("reconnect says %s", e.data)
						}
						mu.Lock()
						ends = append(ends, time.Since(begin))
						mu.Unlock()
						return
					}
				}
			})
		}
		c.DrainStreams(20 * time.Second)
		clients.Wait()
		early := 0
		for _, at := range ends {
			if at < 10*time.Second {
				early++
			}
			if at > 21*time.Second {
				t.Errorf("a stream ended after %v", at)
			}
		}
		if early < 5 || early > 35 {
			t.Errorf("%d of 40 streams ended in the first half of the window", early)
		}
		if l := listen(t, ctx, tr, watchURL, "", ""); l.res.StatusCode != http.StatusTooManyRequests {
			t.Errorf("status %d for a new stream, want 429", l.res.StatusCode)
		}
	})
}

func TestTableThatIsNoEventIsToBeFetched(t *testing.T) {
	streaming(t, etagcache.Config{}, func(t *testing.T, ctx context.Context, c *etagcache.Cache, tr *http.Transport) {
		tab := parseTable(t, "a: Path(\"/\xff\") -> <shunt>;", 1, start)
		poll(c, tab, 1, time.Now())
		l := listen(t, ctx, tr, watchURL, "", "")
		if e := l.next("fetch"); !strings.HasPrefix(e.id, `"`+tab.Digest().String()) {
			t.Errorf("fetch names %s", e.id)
		}
		l.next("current")
	})
}

// TestStreamsConverge is a model of clients that disconnect, come back with what they have, and read at different speeds.
func TestStreamsConverge(t *testing.T) {
	for seed := range uint64(10) {
		streaming(t, etagcache.Config{}, func(t *testing.T, ctx context.Context, c *etagcache.Cache, tr *http.Transport) {
			rng := rand.New(rand.NewPCG(seed, 5))
			current := manyRoutes(t, 0, 1)
			poll(c, current, 1, time.Now())
			var clients [6]*listener
			var ids [6]string
			connect := func(i int) {
				before := clients[i]
				clients[i] = listen(t, ctx, tr, watchURL, []string{"", "gzip"}[rng.IntN(2)], ids[i])
				if before != nil {
					clients[i].held = before.held
					_ = before.res.Body.Close()
				}
			}
			// read reads up to the next current event. A client that read nothing for long was dropped, and comes back.
			read := func(i int) {
				for {
					e, err := clients[i].tryNext("current")
					if err == nil {
						ids[i] = e.id
						return
					}
					connect(i)
				}
			}
			for step := range uint64(60) {
				if rng.IntN(3) > 0 {
					current = manyRoutes(t, rng.IntN(30), step+2)
					poll(c, current, step+2, time.Now())
				}
				i := rng.IntN(len(clients))
				if clients[i] == nil || rng.IntN(4) == 0 {
					connect(i)
				}
				read(i)
			}
			for i, l := range clients {
				for n := 0; l != nil && (clients[i].held == nil || clients[i].held.Digest() != current.Digest()); n++ {
					if n > 100 {
						t.Fatalf("seed %d: client %d does not converge", seed, i)
					}
					read(i)
				}
			}
		})
	}
}
