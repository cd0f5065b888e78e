package upgrade_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
)

// exchange is a recorded request and answer of the first version. The route server had its first table in phase 1 and
// its second in phase 2. A stream began in phase 1, and its answer covers both.
type exchange struct {
	client  string // the client: sidecar, relay or command
	phase   int
	request *http.Request
	body    []byte
	status  int
	header  http.Header
	answer  []byte
}

// holds returns the digest that a request names, empty if it names none.
func holds(h http.Header) string {
	return digests.FindString(h.Get("If-None-Match") + " " + h.Get("Last-Event-ID"))
}

// key identifies requests that the first version answers differently.
func (x *exchange) key() string {
	return strings.Join([]string{x.request.Method, x.request.URL.RequestURI(), holds(x.request.Header)}, " ")
}

func (x *exchange) stream() bool {
	return strings.HasPrefix(x.header.Get("Content-Type"), "text/event-stream")
}

// exchangesFile holds the exchanges as text, in the order in which they were made.
var exchangesFile = filepath.Join(first, "exchanges.txtar")

// exchanges reads exchangesFile.
func exchanges(t *testing.T) (all []*exchange) {
	t.Helper()
	archive, err := txtar.ParseFile(exchangesFile)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(archive.Files); i += 2 {
		x := &exchange{}
		if _, err := fmt.Sscanf(archive.Files[i].Name, "phase %d %s", &x.phase, &x.client); err != nil {
			t.Fatalf("%s: %v", archive.Files[i].Name, err)
		}
		if x.request, err = http.ReadRequest(bufio.NewReader(bytes.NewReader(archive.Files[i].Data))); err != nil {
			t.Fatal(err)
		}
		if x.body, err = io.ReadAll(x.request.Body); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(archive.Files[i+1].Data)), x.request)
		if err != nil {
			t.Fatal(err)
		}
		if x.answer, err = io.ReadAll(resp.Body); err != nil {
			t.Fatal(err)
		}
		x.status, x.header = resp.StatusCode, resp.Header
		all = append(all, x)
	}
	if len(all) < 10 {
		t.Fatalf("%s has %d exchanges", exchangesFile, len(all))
	}
	return all
}

// find returns the exchange with the first version's answer to a request.
func find(all []*exchange, phase int, key string) *exchange {
	i := slices.IndexFunc(all, func(x *exchange) bool { return (x.phase == phase || x.stream()) && x.key() == key })
	if i < 0 {
		return nil
	}
	return all[i]
}

// recorder is a proxy between clients and a listener of a route server. It records each different exchange once.
type recorder struct {
	client string
	to     *httputil.ReverseProxy

	mu    *sync.Mutex // of phase and all, which several recorders share
	phase *int
	all   *[]*exchange
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	x := &exchange{client: r.client, request: req.Clone(req.Context())}
	r.mu.Lock()
	x.phase = *r.phase
	r.mu.Unlock()
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	x.body, req.Body = body, io.NopCloser(bytes.NewReader(body))
	req.Header.Set("Accept-Encoding", "identity") // the answers are stored as text
	copied := &copied{ResponseWriter: w, r: r, x: x}
	r.to.ServeHTTP(copied, req)
}

// copied copies an answer into its exchange.
type copied struct {
	http.ResponseWriter
	r *recorder
	x *exchange
}

func (c *copied) WriteHeader(status int) {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	c.x.status, c.x.header = status, c.Header().Clone()
	known := slices.IndexFunc(*c.r.all, func(x *exchange) bool { return x.phase == c.x.phase && x.key() == c.x.key() && x.client == c.x.client })
	if known < 0 {
		*c.r.all = append(*c.r.all, c.x)
	} else if (*c.r.all)[known].status == http.StatusNotModified && status != http.StatusNotModified {
		(*c.r.all)[known] = c.x // the earlier one was made before the table changed
	}
	c.ResponseWriter.WriteHeader(status)
}

func (c *copied) Write(p []byte) (int, error) {
	c.r.mu.Lock()
	c.x.answer = append(c.x.answer, p...)
	c.r.mu.Unlock()
	return c.ResponseWriter.Write(p)
}

func (c *copied) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// recordExchanges writes exchangesFile.
func recordExchanges(t *testing.T) {
	t.Helper()
	manifests := shop(t)
	state := t.TempDir()
	root := current.server(t, state, "--manifests="+manifests)
	before := root.awaitRoute("kube_rg__shop__cart__")
	var mu sync.Mutex
	var all []*exchange
	phase := 1
	between := func(client, listener string) string {
		to, err := url.Parse(listener)
		if err != nil {
			t.Fatal(err)
		}
		proxy := httputil.NewSingleHostReverseProxy(to)
		proxy.FlushInterval = -1
		s := httptest.NewServer(&recorder{client: client, to: proxy, mu: &mu, phase: &phase, all: &all})
		t.Cleanup(s.CloseClientConnections)
		return s.URL
	}
	clients := []*process{
		current.sidecar(t, t.TempDir(), "poller", between("poller", root.main), "--transport=poll"),
		current.sidecar(t, t.TempDir(), "follower", between("follower", root.main), "--transport=stream"),
		current.server(t, t.TempDir(), "--upstream="+between("relay", root.main)),
	}
	support := between("command", root.support)
	for _, want := range []string{before, ""} {
		if want == "" {
			mu.Lock()
			phase = 2
			mu.Unlock()
			addIngress(t, manifests, "added")
			want = root.awaitRoute("kube_shop__added__")
		}
		for _, c := range clients {
			c.awaitTable("the table", want)
		}
		// Reports and confirmations.
		until(t, "an exchange of each kind", func() error {
			mu.Lock()
			defer mu.Unlock()
			for _, kind := range []string{"poller GET 304", "poller POST 204", "follower POST 204", "relay POST 204"} {
				if !slices.ContainsFunc(all, func(x *exchange) bool {
					return x.phase == phase && fmt.Sprint(x.client, " ", x.request.Method, " ", x.status) == kind
				}) {
					return fmt.Errorf("no %s in phase %d", kind, phase)
				}
			}
			return nil
		})
		for _, command := range []string{"status", "clients", "problems", "held"} {
			if out, code := current.ask(t, command, support); code != 0 {
				t.Fatalf("%s: %d, %s", command, code, out)
			}
		}
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	// Remove what is specific to this machine.
	writeFile(t, exchangesFile, string(txtar.Format(archiveOf(all, strings.NewReplacer(`"`+host+`"`, `"machine"`, "id="+host+";", "id=machine;", state, "/state")))))
}

func archiveOf(all []*exchange, names *strings.Replacer) *txtar.Archive {
	archive := &txtar.Archive{Comment: []byte("What clients of the first version asked its route server, and what that answered: each client, and one set for each of two tables.\n" +
		"Recorded by the test; not to be edited.\n\n")}
	for _, x := range all {
		var request, answer bytes.Buffer
		fmt.Fprintf(&request, "%s %s HTTP/1.1\r\nHost: routesrv\r\n", x.request.Method, x.request.URL.RequestURI())
		writeMessage(&request, names, x.request.Header, x.body, x.request.Method == http.MethodPost)
		fmt.Fprintf(&answer, "HTTP/1.1 %d %s\r\n", x.status, http.StatusText(x.status))
		writeMessage(&answer, names, x.header, x.answer, x.status != http.StatusNotModified && x.status != http.StatusNoContent && !x.stream())
		name := fmt.Sprintf("phase %d %s %s", x.phase, x.client, x.request.URL.Path)
		archive.Files = append(archive.Files, txtar.File{Name: name + " request", Data: request.Bytes()}, txtar.File{Name: name + " answer", Data: answer.Bytes()})
	}
	return archive
}

func writeMessage(out *bytes.Buffer, names *strings.Replacer, header http.Header, body []byte, length bool) {
	header, body = header.Clone(), []byte(names.Replace(string(body)))
	for name, values := range header {
		for i := range values {
			header[name][i] = names.Replace(values[i])
		}
	}
	for _, name := range []string{"Connection", "Content-Length", "Transfer-Encoding"} {
		header.Del(name)
	}
	if length {
		header.Set("Content-Length", fmt.Sprint(len(body)))
	}
	_ = header.Write(out) // writing to a buffer cannot fail
	out.WriteString("\r\n")
	out.Write(body)
}

// firstServer is a route server of the first version, to the extent that its answers were recorded.
type firstServer struct {
	t        *testing.T
	all      []*exchange
	mu       sync.Mutex
	phase    int
	advanced chan struct{} // closed when phase is 2
}

func newFirstServer(t *testing.T) (*firstServer, string) {
	t.Helper()
	s := &firstServer{t: t, all: exchanges(t), phase: 1, advanced: make(chan struct{})}
	listener := httptest.NewServer(s)
	t.Cleanup(func() { listener.CloseClientConnections(); listener.Close() })
	return s, listener.URL
}

// advance switches the server to its second table.
func (s *firstServer) advance() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.phase = 2
	close(s.advanced)
}

// table returns the text of the table of a phase.
func (s *firstServer) table(phase int) string {
	s.t.Helper()
	text := ""
	for _, x := range s.all {
		if x.phase == phase && x.request.URL.Path == "/routes" && x.status == http.StatusOK && x.request.Method == http.MethodGet {
			text = string(x.answer)
		}
	}
	if text == "" {
		s.t.Fatalf("no table of phase %d", phase)
	}
	return text
}

func (s *firstServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	phase := s.phase
	s.mu.Unlock()
	x := find(s.all, phase, (&exchange{request: r}).key())
	if x == nil && r.Method == http.MethodPost {
		x = find(s.all, phase, "POST "+r.URL.RequestURI()+" ")
	}
	if x == nil { // it answers even requests that were not recorded
		http.NotFound(w, r)
		return
	}
	for name, values := range x.header {
		w.Header()[name] = values
	}
	w.Header().Set("X-Source-Read", time.Now().UTC().Format(time.RFC3339Nano))
	w.WriteHeader(x.status)
	if !x.stream() {
		_, _ = w.Write(x.answer)
		return
	}
	before, after := splitStream(x.answer)
	_, _ = w.Write(before)
	_ = http.NewResponseController(w).Flush()
	select {
	case <-s.advanced:
		_, _ = w.Write(after)
		_ = http.NewResponseController(w).Flush()
	case <-r.Context().Done():
	}
	<-r.Context().Done()
}

// splitStream splits a stream before its delta.
func splitStream(stream []byte) (before, after []byte) {
	if i := bytes.Index(stream, []byte("event: delta")); i >= 0 {
		return stream[:i], stream[i:]
	}
	return stream, nil
}
