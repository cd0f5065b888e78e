package dataplane_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

func TestPollsAreAnsweredWithDeltas(t *testing.T) {
	s := newStage(t, 1)
	s.cfg.UpdateMode = dataplane.Poll
	c, o := s.client(), s.origins[0]
	first, second := newTable(t, 1, "a", "b"), newTable(t, 2, "b", "c")
	o.set(first)
	mustPoll(t, c)
	if got := o.asked("/routes")[0].Header.Get("A-IM"); got != "" {
		t.Errorf("the first request asks for %q", got)
	}
	o.set(second)
	mustPoll(t, c)
	last := o.asked("/routes")[1]
	if got := last.Header.Get("A-IM"); got != "eskip-delta" {
		t.Errorf("the second request asks for %q", got)
	}
	holds(t, c, second)
	fileHolds(t, fileOf(s.cfg), second)
	if got := c.Status().Applied; got.Revision != 2 || got.ETag != etagOf(second, "+zstd") || got.Routes != 2 {
		t.Errorf("applied is %+v", got)
	}
	mustPoll(t, c) // 304
	for series, want := range map[[2]string]float64{
		{"dataplane_deltas_total", "applied"}: 1, {"dataplane_deltas_total", "failed"}: 0,
		{"dataplane_deltas_total", "full"}: 1,
	} {
		if got := s.metric(series[0], "result", series[1]); got != want {
			t.Errorf("%s is %v, want %v", series, got, want)
		}
	}
	o.noDeltas = true
	third := newTable(t, 3, "d")
	o.set(third.WithRevision(3))
	o.set(newTable(t, 4, "b", "c", "d"))
	mustPoll(t, c)
	if got := s.metric("dataplane_deltas_total", "result", "full"); got != 2 {
		t.Errorf("%v full tables, want the first one and one in place of a delta", got)
	}
}

// TestDeltaSharesMemory: a change of one route does not create a second table.
func TestDeltaSharesMemory(t *testing.T) {
	s := newStage(t, 1)
	s.cfg.UpdateMode = dataplane.Poll
	c, o := s.client(), s.origins[0]
	var doc strings.Builder
	for i := range 5000 {
		doc.WriteString("r" + strconv.Itoa(i) + ": * -> <shunt>;\n")
	}
	o.set(parseTable(t, doc.String(), 1))
	mustPoll(t, c)
	before := c.Current().Routes().Blocks()
	o.set(parseTable(t, strings.Replace(doc.String(), "r17: *", `r17: Path("/x")`, 1), 2))
	mustPoll(t, c)
	shared := 0
	for i, b := range c.Current().Routes().Blocks() {
		if i < len(before) && b == before[i] {
			shared++
		}
	}
	if len(before) < 5 || shared < len(before)-2 { // a full block changes the block after it
		t.Errorf("%d of %d blocks are shared", shared, len(before))
	}
}

// TestDeltaForTheHeldTable: a request names both tables, and a delta may be based on either.
func TestDeltaForTheHeldTable(t *testing.T) {
	s := newStage(t, 1)
	s.cfg.UpdateMode = dataplane.Poll
	c, o := s.client(), s.origins[0]
	full, lost, less := newTable(t, 1, "a", "b", "c", "d"), newTable(t, 2, "a"), newTable(t, 3, "a", "e")
	o.set(full)
	mustPoll(t, c)
	o.set(lost)
	mustPoll(t, c)
	holds(t, c, full)
	o.change(func() { o.history = []*table.Table{lost, less} }) // the other base is no longer known
	mustPoll(t, c)
	holds(t, c, full)
	if h := c.Status().Held; h == nil || h.Digest != less.Digest() {
		t.Fatalf("held is %+v", h)
	}
	if got := s.metric("dataplane_deltas_total", "result", "applied"); got != 2 {
		t.Errorf("%v deltas, want 2", got)
	}
	if _, err := c.Accept(publish.Acceptance{Digest: less.Digest()}); err != nil {
		t.Fatal(err)
	}
	holds(t, c, less)
}

// TestDeltaThatDoesNotVerify covers all that can be wrong with a delta. The full table comes in the same round, and the applied
// table stays until then.
func TestDeltaThatDoesNotVerify(t *testing.T) {
	first, second, other := newTable(t, 1, "a", "b"), newTable(t, 2, "b", "c"), newTable(t, 9, "x")
	good := deltaOf(first, second)
	edit := func(change func(*wireDelta)) string {
		d := wireDelta{
			Base: first.Digest().String(), Target: second.Digest().String(), Revision: 2, Count: 2, Deletes: []string{"a"},
			Upserts: strings.Split(string(second.Text()), "\n"),
		}
		change(&d)
		return mustJSON(d)
	}
	header := func(name, value string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { w.Header().Set(name, value) }
	}
	for _, c := range []struct {
		name   string
		delta  string
		header func(http.ResponseWriter)
	}{
		{name: "other form", delta: good, header: header("IM", "gdiff")},
		{name: "no form", delta: good, header: header("IM", "")},
		{name: "other type", delta: good, header: header("Content-Type", "text/plain")},
		{name: "base that was not named", delta: good, header: header("Delta-Base", etagOf(other, ""))},
		{name: "no base", delta: good, header: header("Delta-Base", "")},
		{name: "ETag of another table", delta: good, header: header("Etag", etagOf(other, ""))},
		{name: "no ETag", delta: good, header: header("Etag", "")},
		{name: "ETag without a digest", delta: good, header: header("Etag", `"v2"`)},
		{name: "X-Count of another table", delta: good, header: header("X-Count", "3")},
		{name: "unknown encoding", delta: good, header: header("Content-Encoding", "br")},
		{name: "wrong encoding", delta: good, header: header("Content-Encoding", "gzip")},
		{name: "no JSON", delta: string(second.Text())},
		{name: "cut", delta: good[:len(good)-1]},
		{name: "two deltas", delta: good + good},
		{name: "empty", delta: ""},
		{name: "for another table", delta: edit(func(d *wireDelta) { d.Base = other.Digest().String() })},
		{name: "to another table", delta: edit(func(d *wireDelta) { d.Target = other.Digest().String() })},
		{name: "wrong count", delta: edit(func(d *wireDelta) { d.Count = 3 })},
		{name: "a route too many", delta: edit(func(d *wireDelta) { d.Deletes = nil })},
		{name: "a route too few", delta: edit(func(d *wireDelta) { d.Upserts = d.Upserts[:1] })},
		{name: "another text", delta: edit(func(d *wireDelta) { d.Upserts[0] = `b: * -> "http://192.0.2.1";` })},
		{name: "no route", delta: edit(func(d *wireDelta) { d.Upserts[0] = `no route` })},
		{name: "a route twice", delta: edit(func(d *wireDelta) { d.Upserts = append(d.Upserts, d.Upserts[0]) })},
		{name: "too large", delta: edit(func(d *wireDelta) {
			d.Upserts = append(d.Upserts, `z: Path("/`+strings.Repeat("z", 5000)+`") -> <shunt>;`)
		})},
		{name: "too large on the wire", delta: good[:len(good)-1] + strings.Repeat(" ", 5000) + "}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, 1)
			s.cfg.UpdateMode, s.cfg.MaxBytes = dataplane.Poll, 4000
			client, o := s.client(), s.origins[0]
			o.set(first)
			mustPoll(t, client)
			o.set(second)
			o.get = func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("A-IM") == "" {
					holds(t, client, first)
					serveTable(w, r, second, "")
					return
				}
				sendDelta(&before{ResponseWriter: w, change: c.header}, second, etagOf(first, ""), c.delta)
			}
			mustPoll(t, client)
			holds(t, client, second)
			if got := len(o.asked("/routes")); got != 3 {
				t.Errorf("%d requests, want 3", got)
			}
			if got := s.metric("dataplane_deltas_total", "result", "failed"); got != 1 {
				t.Errorf("%v deltas failed, want 1", got)
			}
			if got := s.metric("dataplane_deltas_total", "result", "full"); got != 2 {
				t.Errorf("%v full tables, want the first one and one because of a delta", got)
			}
			if got := s.log.count(dataplane.LogDeltaFailed); got != 1 {
				t.Errorf("said %d times, want once", got)
			}
			if s := client.Status().Servers[0]; s.Failures != 0 {
				t.Errorf("the server has failed: %+v", s)
			}
		})
	}
}

// before changes the headers just before they are sent.
type before struct {
	http.ResponseWriter
	change func(http.ResponseWriter)
}

func (b *before) WriteHeader(status int) {
	if b.change != nil {
		b.change(b.ResponseWriter)
	}
	b.ResponseWriter.WriteHeader(status)
}

// TestDeltaAndFullTableThatDoNotVerify: the applied table stays.
func TestDeltaAndFullTableThatDoNotVerify(t *testing.T) {
	s := newStage(t, 1)
	s.cfg.UpdateMode = dataplane.Poll
	c, o := s.client(), s.origins[0]
	first, second := newTable(t, 1, "a", "b"), newTable(t, 2, "b", "c")
	o.set(first)
	mustPoll(t, c)
	o.set(second)
	o.get = func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("A-IM") != "" {
			sendDelta(w, second, etagOf(first, ""), "{}")
			return
		}
		w.Header().Set("Etag", etagOf(second, ""))
		_, _ = w.Write(first.Text())
	}
	failPoll(t, c, dataplane.ReasonDigest)
	holds(t, c, first)
	fileHolds(t, fileOf(s.cfg), first)
	o.get = nil
	mustPoll(t, c)
	last := o.asked("/routes")
	if got := last[len(last)-1].Header; got.Get("If-None-Match") != etagOf(first, "+zstd") || got.Get("A-IM") != "" {
		t.Errorf("the next request has the headers %v", got)
	}
	holds(t, c, second)
}

// TestServerWithABadDeltaHasARest: for ten minutes the client requests only full tables from that server.
func TestServerWithABadDeltaHasARest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1)
		s.cfg.UpdateMode = dataplane.Poll
		c, o := s.client(), s.origins[0]
		o.set(newTable(t, 1, "a"))
		mustPoll(t, c)
		o.set(newTable(t, 2, "a"))
		o.change(func() {
			o.get = func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("A-IM") == "" {
					serveTable(w, r, o.currentLocked(), "")
					return
				}
				sendDelta(w, o.currentLocked(), "", "")
			}
		})
		asks := func() bool {
			mustPoll(t, c)
			all := o.asked("/routes")
			return all[len(all)-1].Header.Get("A-IM") != ""
		}
		if asks() {
			t.Fatal("the last request of the round asks for a delta")
		}
		o.change(func() { o.get = nil })
		time.Sleep(10*time.Minute - time.Second)
		if asks() {
			t.Error("a delta is asked for before ten minutes have passed")
		}
		if got := s.metric("dataplane_deltas_total", "result", "full"); got != 2 {
			t.Errorf("%v full tables, want the first one and one because of a delta", got)
		}
		time.Sleep(2 * time.Second)
		if !asks() {
			t.Error("no delta is asked for after ten minutes")
		}
	})
}

// TestDeltasAreNotAskedOfStrangers: no deltas are requested from a server that is not ours, nor from one whose tables are not in
// canonical form.
func TestDeltasAreNotAskedOfStrangers(t *testing.T) {
	w := newWorld(t, 1)
	c, s := w.client(), w.servers[0]
	s.fail(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Etag", `"`+sum("a: * -> <shunt>;")+`"`)
		_, _ = rw.Write([]byte("a: * -> <shunt>;"))
	})
	mustPoll(t, c)
	mustPoll(t, c)
	if got := s.last(t).Header.Get("A-IM"); got != "" {
		t.Errorf("a stranger is asked for %q", got)
	}
	pretty := "b: *\n  -> <shunt>;\na: * -> <shunt>;\n"
	digest := parseTable(t, pretty, 0) // the digest that the client computes
	s.fail(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Etag", `"`+sum(pretty)+`"`)
		rw.Header().Set("X-Revision", "0")
		_, _ = rw.Write([]byte(pretty))
	})
	mustPoll(t, c)
	holds(t, c, digest)
	mustPoll(t, c)
	if got := s.last(t).Header.Get("A-IM"); got != "" {
		t.Errorf("a delta is asked for, for a text that nobody has: %q", got)
	}
}

func sum(text string) string {
	digest := sha256.Sum256([]byte(text))
	return hex.EncodeToString(digest[:])
}
