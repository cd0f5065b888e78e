package tables_test

import (
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/source/tables"
)

// document is a table of n routes.
func document(n int) string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fmt.Sprintf(`r%06d: Path("/%d") -> setPath("/x") -> <shunt>;`, i, i)
	}
	return strings.Join(lines, "\n")
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// reader returns a reader that leaves no connection behind.
func reader(t *testing.T, cfg tables.Config) *tables.Reader {
	t.Helper()
	r := tables.New(cfg)
	t.Cleanup(r.Close)
	return r
}

// routeServer is a route server as its clients see it: of the reference without revision, of ours with one.
type routeServer struct {
	text     string
	revision string
	suffix   string              // of the ETag, behind digest and encoding
	change   func(http.Header)   // of a 200
	cut      func(string) string // what becomes of the body on its way
}

func newRouteServer(text string) *routeServer {
	return &routeServer{text: text}
}

func (s *routeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text := s.text
	zipped := strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
	etag := fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
	if s.revision != "" {
		etag += "." + s.revision
		w.Header().Set("X-Revision", s.revision)
	}
	etag += s.suffix
	if zipped {
		etag += "+gzip"
	}
	w.Header().Set("Etag", `"`+etag+`"`)
	w.Header().Set("X-Count", strconv.Itoa(count(text)))
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if s.change != nil {
		s.change(w.Header())
	}
	if s.cut != nil {
		text = s.cut(text)
	}
	if !zipped {
		fmt.Fprint(w, text)
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	z := gzip.NewWriter(w)
	fmt.Fprint(z, text)
	z.Close()
}

func count(text string) int {
	if text == "" {
		return 0
	}
	return 1 + strings.Count(text, "\n")
}

// skipper is the support listener of a Skipper. It has a new table after each of the first pages that it
// serves, as many times as changes says.
type skipper struct {
	routes    []*eskip.Route
	timestamp int
	changes   int
	ignore    bool // the parameter "timestamp", so that only the header tells
	log       []string
	change    func(page int, h http.Header)
}

func (s *skipper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	s.log = append(s.log, q.Get("offset"))
	if ts := q.Get("timestamp"); ts != "" && ts != strconv.Itoa(s.timestamp) && !s.ignore {
		http.Error(w, "invalid timestamp", http.StatusBadRequest)
		return
	}
	offset, limit := number(q.Get("offset"), 0), number(q.Get("limit"), 1024)
	w.Header().Set("X-Timestamp", strconv.Itoa(s.timestamp))
	w.Header().Set("X-Count", strconv.Itoa(len(s.routes)))
	w.Header().Set("Content-Type", "text/plain")
	if s.change != nil {
		s.change(len(s.log), w.Header())
	}
	offset = min(offset, len(s.routes))
	page := s.routes[offset:min(offset+limit, len(s.routes))]
	pretty := !q.Has("nopretty") || q.Get("nopretty") == "0" || q.Get("nopretty") == "false"
	if pretty {
		panic("pretty printed text was asked for")
	}
	eskip.Fprint(w, eskip.PrettyPrintInfo{}, page...)
	if s.changes > 0 && offset == 0 {
		s.changes--
		s.timestamp++
		s.routes = eskip.MustParse(document(len(s.routes) + 1))
	}
}

func number(s string, otherwise int) int {
	if n, err := strconv.Atoi(s); err == nil {
		return n
	}
	return otherwise
}
