package clients_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/routesrv/routesrv/test/robustness/clients"
	"github.com/routesrv/routesrv/test/robustness/history"
	"github.com/routesrv/routesrv/test/robustness/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	tableA = "a: Path(\"/a\") -> <shunt>;\nb: Path(\"/b\") -> <shunt>;"
	tableB = "a: Path(\"/a\") -> <shunt>;\nc: Path(\"/c\") -> <shunt>;"
)

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func tag(text string, revision int) string { return fmt.Sprintf(`"%s.%d"`, digest(text), revision) }

func delta(base, target string) string {
	d, _ := json.Marshal(map[string]any{
		"base": digest(base), "target": digest(target), "count": 2, "deletes": []string{"b"}, "upserts": []string{"c: Path(\"/c\") -> <shunt>;"},
	})
	return string(d)
}

// answers runs a client against a script: the n-th request gets the n-th answer, and the last answer is repeated. It returns the
// recorded answers, as many as there are steps.
func answers(t *testing.T, kind string, steps ...http.HandlerFunc) []history.Answer {
	t.Helper()
	n := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		step := steps[min(n, len(steps)-1)]
		n++
		step(w, r)
	}))
	defer s.Close()
	defer s.CloseClientConnections()
	rec := record.New(record.Config{Tables: 1 << 20})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got := make(chan history.Answer, 1000)
	rec.Watch(func(a history.Answer) {
		select {
		case got <- a:
		default:
		}
	}, nil)
	c := clients.New(clients.Config{
		Member: history.Member{Name: "x", Kind: kind}, Upstreams: []clients.Upstream{{Name: "s1", URL: s.URL}},
		Interval: time.Millisecond, Timeout: 10 * time.Second, Seed: 1,
	}, rec)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Run(ctx)
	}()
	var out []history.Answer
	for len(out) < len(steps) {
		select {
		case a := <-got:
			out = append(out, a)
		case <-ctx.Done():
			t.Fatalf("only %d answers: %+v", len(out), out)
		}
	}
	cancel()
	<-done
	return out
}

func full(text string, revision int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", tag(text, revision))
		w.Header().Set("X-Revision", fmt.Sprint(revision))
		w.Header().Set("X-Table-State", "stale")
		io.WriteString(w, text)
	}
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(code) }
}

func cut(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", tag(text, 9))
		w.Header().Set("Content-Length", fmt.Sprint(len(text)))
		io.WriteString(w, text[:10])
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

func short(as []history.Answer) []string {
	var out []string
	for _, a := range as {
		held := map[string]string{digest(tableA): "A", digest(tableB): "B", "": "-"}[a.Digest]
		out = append(out, strings.TrimSpace(a.Form+" "+a.Outcome+" "+held))
	}
	return out
}

func TestAPollerKeepsWhatItHas(t *testing.T) {
	got := answers(t, history.Poller, status(404), full(tableA, 3), status(304), status(503), cut(tableB), full("nonsense", 4), full(tableB, 5))
	want := []string{"none failed -", "table applied A", "none unchanged A", "none failed A", "none failed A", "table refused A", "table applied B"}
	if !slices.Equal(short(got), want) {
		t.Errorf("got %q\nwant %q", short(got), want)
	}
	if a := got[1]; a.Revision != 3 || a.State != "stale" || a.Base != "" || a.ETag != tag(tableA, 3) || got[2].Base != a.ETag {
		t.Errorf("%+v", a)
	}
}

func TestADeltaClientTakesOnlyWhatLeadsToTheTarget(t *testing.T) {
	im := func(base, target string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("A-IM") != "eskip-delta" || r.Header.Get("If-None-Match") == "" {
				t.Errorf("asked with %v", r.Header)
			}
			w.Header().Set("ETag", tag(tableB, 4))
			w.WriteHeader(http.StatusIMUsed)
			io.WriteString(w, delta(base, target))
		}
	}
	plain := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("A-IM") != "" || r.Header.Get("If-None-Match") != "" {
			t.Errorf("after a delta that was no good it asks with %v", r.Header)
		}
		full(tableA, 3)(w, r)
	}
	mixed := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", tag(tableB, 4))
		io.WriteString(w, tableA)
	}
	got := answers(t, history.Delta, full(tableA, 3), im(tableB, tableB), plain, im(tableA, tableA), plain, im(tableA, tableB), mixed)
	want := []string{
		"table applied A", "delta refused A", "table applied A", "delta refused A", "table applied A", "delta applied B", "table refused B",
	}
	if !slices.Equal(short(got), want) {
		t.Errorf("got %q\nwant %q", short(got), want)
	}
}

func TestAStreamIsFollowed(t *testing.T) {
	event := func(name, id, data string) string {
		return "event: " + name + "\nid: " + id + "\ndata: " + strings.ReplaceAll(data, "\n", "\ndata: ") + "\n\n"
	}
	stream := func(events ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "retry: 1000\n\n: hello\n\n"+strings.Join(events, ""))
		}
	}
	got := answers(t, history.Stream,
		stream(event("fetch", tag(tableA, 3), "")), full(tableA, 3),
		func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Last-Event-ID") != tag(tableA, 3) {
				t.Errorf("asked with %v", r.Header)
			}
			stream(event("delta", tag(tableB, 4), delta(tableA, tableB)), event("current", tag(tableB, 4), `{"state":"held"}`))(w, r)
		},
		stream(event("delta", tag(tableB, 4), delta(tableA, tableB))),
		status(404),
	)
	want := []string{
		"table applied A", // the stream asks for it, and a new one names it
		"event applied B", "event unchanged B", "none failed B",
		"event refused B",
	}
	if !slices.Equal(short(got), want) {
		t.Errorf("got %q\nwant %q", short(got), want)
	}
	if got[1].State != "held" || got[0].Revision != 3 {
		t.Errorf("states %q and %q, revision %d", got[0].State, got[1].State, got[0].Revision)
	}
}
