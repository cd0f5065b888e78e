package dataplane_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newTable makes a table with routes of these ids. The revision is part of the text, so that tables differ.
func newTable(t testing.TB, revision uint64, ids ...string) *table.Table {
	t.Helper()
	var doc strings.Builder
	for _, id := range ids {
		fmt.Fprintf(&doc, "%s: Path(\"/%s\") -> setPath(\"/%d\") -> \"http://10.0.0.1:8080\";\n", id, id, revision)
	}
	return parseTable(t, doc.String(), revision)
}

func parseTable(t testing.TB, doc string, revision uint64) *table.Table {
	t.Helper()
	routes, err := table.Parse(doc)
	if err != nil {
		t.Fatal(err)
	}
	tab, err := table.New(routes, revision, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// etagOf returns the name of a table on one of our servers.
func etagOf(t *table.Table, suffix string) string {
	name := t.Digest().String()
	if t.Revision() > 0 {
		name += "." + strconv.FormatUint(t.Revision(), 10)
	}
	return `"` + name + suffix + `"`
}

// routeServer is a route server that the test controls. It does not implement the order of tables.
type routeServer struct {
	mu       sync.Mutex
	table    *table.Table // nil: 404
	encoding string       // zstd if empty
	answer   http.HandlerFunc
	requests []*http.Request
}

func (s *routeServer) set(t *table.Table) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table, s.answer = t, nil
}

// fail makes the server give another answer until the next set; fail(nil) ends that, too.
func (s *routeServer) fail(answer http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

func (s *routeServer) status(code int) {
	s.fail(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
}

// count returns the number of requests so far; last returns the last one.
func (s *routeServer) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests)
}

func (s *routeServer) last(t testing.TB) *http.Request {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.requests) == 0 {
		t.Fatal("no request yet")
	}
	return s.requests[len(s.requests)-1]
}

func (s *routeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, r)
	tab, answer, encoding := s.table, s.answer, s.encoding
	s.mu.Unlock()
	switch {
	case answer != nil:
		answer(w, r)
	case tab == nil:
		w.Header().Set("Retry-After", "3")
		w.WriteHeader(http.StatusNotFound)
	default:
		serveTable(w, r, tab, encoding)
	}
}

// serveTable answers as a route server does, without the order of tables.
func serveTable(w http.ResponseWriter, r *http.Request, tab *table.Table, encoding string) {
	if encoding == "" {
		encoding = "zstd"
	}
	suffix := ""
	if encoding != "identity" {
		suffix = "+" + encoding
	}
	h := w.Header()
	h.Set("Etag", etagOf(tab, suffix))
	h.Set("X-Count", strconv.Itoa(tab.Len()))
	h.Set("X-Revision", strconv.FormatUint(tab.Revision(), 10))
	h.Set("X-Source-Read", time.Now().UTC().Format("2006-01-02T15:04:05.000Z07:00"))
	for name := range strings.SplitSeq(r.Header.Get("If-None-Match"), ", ") {
		if strings.HasPrefix(name, `"`+tab.Digest().String()) && strings.HasSuffix(name, suffix+`"`) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	body := encode(encoding, tab.Text())
	if encoding != "identity" {
		h.Set("Content-Encoding", encoding)
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Last-Modified", tab.Time().UTC().Format(http.TimeFormat))
	if r.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}

func encode(encoding string, text []byte) []byte {
	var b bytes.Buffer
	switch encoding {
	case "gzip":
		w := gzip.NewWriter(&b)
		_, _ = w.Write(text)
		_ = w.Close()
	case "zstd":
		w, _ := zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1))
		_, _ = w.Write(text)
		_ = w.Close()
	default:
		return text
	}
	return b.Bytes()
}

// network is a RoundTripper that calls a handler by host. It does nothing that a fake clock cannot see.
type network map[string]http.Handler

func (n network) RoundTrip(r *http.Request) (*http.Response, error) {
	handler, ok := n[r.URL.Host]
	if !ok {
		return nil, errors.New("connection refused")
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	resp := w.Result()
	if r.Method == http.MethodHead || resp.StatusCode == http.StatusNotModified {
		resp.Body = http.NoBody
	}
	return resp, nil
}

// hang never answers.
func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// world is a client with its environment.
type world struct {
	t        testing.TB
	servers  []*routeServer
	registry *prometheus.Registry
	log      *recorder
	cfg      dataplane.Config

	publish func(*table.Table, api.Applied) // called for each applied table
	confirm func(api.Applied)               // called for each answer that confirms it

	mu        sync.Mutex
	published []*table.Table
	infos     []api.Applied
	confirmed []api.Applied
}

// newWorld makes a world with n route servers, at http://a, http://b and so on, without streams and jitter.
func newWorld(t testing.TB, n int) *world {
	t.Helper()
	w := &world{t: t, registry: prometheus.NewRegistry(), log: &recorder{}}
	net := network{}
	for i := range n {
		host := string(rune('a' + i))
		s := &routeServer{}
		w.servers = append(w.servers, s)
		net[host] = s
		w.cfg.URLs = append(w.cfg.URLs, "http://"+host)
	}
	w.cfg.Transport = net
	w.cfg.UpdateMode = dataplane.Poll
	w.cfg.Random = func() float64 { return 0.5 }
	w.cfg.Logger = slog.New(w.log)
	w.cfg.StateDir = t.TempDir()
	w.publish = func(tab *table.Table, info api.Applied) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.published = append(w.published, tab)
		w.infos = append(w.infos, info)
	}
	w.confirm = func(info api.Applied) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.confirmed = append(w.confirmed, info)
	}
	return w
}

// client makes a client of the world. A second client stands for the same data plane after a restart.
func (w *world) client() *dataplane.Client {
	w.t.Helper()
	w.registry = prometheus.NewRegistry()
	cfg := w.cfg
	cfg.Metrics = dataplane.NewMetrics(w.registry)
	told := &sink{world: w}
	cfg.Sink = told
	var err error
	if told.client, err = dataplane.New(cfg); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(told.client.Publisher().Flush) // a write may be in progress in the folder of the test
	return told.client
}

// sink tells a world what its client applies.
type sink struct {
	world  *world
	client *dataplane.Client
	digest table.Digest // of the served table
}

func (s *sink) Restore(t *table.Table, _ time.Time) { s.digest = t.Digest() }

func (s *sink) Publish(t *table.Table) {
	s.world.publish(t, *s.client.Status().Applied)
	s.digest = t.Digest()
}

func (s *sink) Begin() (end func(*table.Table, table.Read)) {
	return func(t *table.Table, _ table.Read) {
		switch {
		case t == nil:
		case t.Digest() != s.digest:
			s.Publish(t)
		default:
			s.world.confirm(*s.client.Status().Applied)
		}
	}
}

// run starts the loop; the returned function stops it and waits.
func (w *world) run(c *dataplane.Client) (stop func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	return func() {
		w.t.Helper()
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("Run ended with %v", err)
		}
	}
}

// heldBy returns the digest of the table that the client holds back; zero if there is none.
func heldBy(c *dataplane.Client) table.Digest { return c.Publisher().Holding().Digest }

// mustPoll polls and expects a usable answer.
func mustPoll(t testing.TB, c *dataplane.Client) {
	t.Helper()
	if err := c.Poll(context.Background()); err != nil {
		t.Fatalf("poll: %v", err)
	}
}

// failPoll polls and expects an error with the given reason.
func failPoll(t testing.TB, c *dataplane.Client, want dataplane.Reason) {
	t.Helper()
	err := c.Poll(context.Background())
	var failure *dataplane.Error
	if !errors.As(err, &failure) {
		t.Fatalf("poll gave %v, want a failure with the reason %s", err, want)
	}
	if failure.Reason != want {
		t.Fatalf("poll failed with the reason %s, want %s: %v", failure.Reason, want, err)
	}
}

// holds checks that the client has the table, byte for byte.
func holds(t testing.TB, c *dataplane.Client, want *table.Table) {
	t.Helper()
	got := c.Current()
	switch {
	case got == nil && want == nil:
	case got == nil || want == nil:
		t.Fatalf("client has %v, want %v", got, want)
	case string(got.Text()) != string(want.Text()):
		t.Fatalf("client has\n%s\nwant\n%s", got.Text(), want.Text())
	}
}

// marshal returns the file form of a table.
func marshal(t testing.TB, tab *table.Table, meta table.FileMeta) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := tab.WriteFile(&b, meta); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// fileOf returns the path of the last-known-good file.
func fileOf(cfg dataplane.Config) string {
	return filepath.Join(cfg.StateDir, publish.LastKnownGoodFile)
}

// fileHolds checks the content of the last-known-good file; nil means that there is none.
func fileHolds(t testing.TB, path string, want *table.Table) {
	t.Helper()
	data, err := os.ReadFile(path)
	if want == nil {
		if !os.IsNotExist(err) {
			t.Fatalf("there is a file at %s (%v), want none:\n%s", path, err, data)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := table.ReadFile(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if got.Digest() != want.Digest() {
		t.Fatalf("file has\n%s\nwant\n%s", got.Text(), want.Text())
	}
}

// metric returns the value of a series; labels are pairs of name and value.
func (w *world) metric(name string, labels ...string) float64 {
	w.t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			var have []string
			for _, l := range m.GetLabel() {
				have = append(have, l.GetName(), l.GetValue())
			}
			if slices.Equal(have, labels) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	w.t.Fatalf("no series %s %v", name, labels)
	return 0
}

// recorder keeps the messages of the log.
type recorder struct {
	mu       sync.Mutex
	messages []string
}

func (r *recorder) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }
func (r *recorder) WithAttrs([]slog.Attr) slog.Handler               { return r }
func (r *recorder) WithGroup(string) slog.Handler                    { return r }
func (r *recorder) Handle(_ context.Context, record slog.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.messages = append(r.messages, record.Message)
	return nil
}

func (r *recorder) count(message string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, m := range r.messages {
		if m == message {
			n++
		}
	}
	return n
}

// readFile reads a file, and fails the test if that is not possible.
func readFile(t testing.TB, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// lines returns the number of messages.
func (r *recorder) lines() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.messages)
}

// randomScripts runs a model with so many random scripts of a length. Models with different streams get different scripts.
func randomScripts(t *testing.T, scripts uint64, length int, stream uint64, run func(*testing.T, []byte)) {
	for seed := range scripts {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			chance := rand.New(rand.NewPCG(seed, stream))
			script := make([]byte, length)
			for i := range script {
				script[i] = byte(chance.UintN(256))
			}
			run(t, script)
		})
	}
}
