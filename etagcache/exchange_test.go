package etagcache_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/table"
)

// documents are the tables that the exchange files name. In v2 one endpoint outside of zone b has changed, so the table for zone
// b is that of v1; v1 has only the zones a and b.
var documents = map[string]string{
	"v1": `a: Path("/a") -> "http://a.example.org";
b: Path("/b") -> <roundRobin, "http://10.0.0.1:80?zone=a", "http://10.0.0.2:80?zone=b", "http://10.0.0.3:80?zone=b", "http://10.0.0.4:80?zone=b", "http://10.0.0.5:80?zone=a">;
kube__redirect: Header("X-Forwarded-Proto", "http") -> redirectTo(308, "https:") -> <shunt>;`,
	"v2": `a: Path("/a") -> "http://a.example.org";
b: Path("/b") -> <roundRobin, "http://10.0.0.1:80?zone=a", "http://10.0.0.2:80?zone=b", "http://10.0.0.3:80?zone=b", "http://10.0.0.4:80?zone=b", "http://10.0.0.9:80?zone=a">;
kube__redirect: Header("X-Forwarded-Proto", "http") -> redirectTo(308, "https:") -> <shunt>;`,
	"v3": `a: Path("/a") -> "http://a.example.org";`,
}

// TestExchanges plays the files in testdata: requests, what must come back, and what happens to the cache in between.
//
//	# comment
//	! publish v1 7        a poll found v1 at revision 7, consistently; 5-7: through caches, with lists from 5 to 7
//	! poll 9              a poll found the same table; also: held 9, start, finish 9 (of the last start); all with 5-9, too
//	! only v1 7           Publish of a poll that has not ended
//	! restore v1 7        Restore
//	! recheck 1           Recheck has been called that often so far; also: claims 1, older 1, broken 1 (metrics)
//	> GET /routes         request line, then headers
//	< 200                 status, then headers: exact value, * for any, -Name for absent
//	< only A B C          these are all headers (besides Date)
//	< body v1             decoded body is that table, v1@b that zone of it; or a literal in quotes; "" for none
//
// {v1} and {v1@b} stand for digests, {v1 time} for the time of the table as an HTTP date.
func TestExchanges(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no exchange files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			newScript(t).play(file)
		})
	}
}

type script struct {
	*testing.T
	cache    *etagcache.Cache
	metrics  *etagcache.Metrics
	server   *httptest.Server
	client   *http.Client
	now      time.Time
	rechecks int
	end      func(*table.Table, table.Read)

	where string
	res   *http.Response
	body  []byte
}

func newScript(t *testing.T) *script {
	s := &script{T: t, metrics: etagcache.NewMetrics(nil), now: start}
	s.cache = newCache(t, etagcache.Config{Metrics: s.metrics, Recheck: func() { s.rechecks++ }})
	s.server = httptest.NewServer(s.cache.Handler())
	transport := &http.Transport{DisableCompression: true}
	s.client = &http.Client{Transport: transport}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		s.server.Close()
	})
	return s
}

func (s *script) play(file string) {
	s.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		s.Fatal(err)
	}
	var request []string
	lines := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; lines.Scan(); n++ {
		s.where = file + ":" + strconv.Itoa(n)
		kind, rest, _ := strings.Cut(lines.Text(), " ")
		rest = s.expand(rest)
		if kind != ">" && request != nil {
			s.send(request)
			request = nil
		}
		switch kind {
		case "", "#":
		case "!":
			s.act(strings.Fields(rest))
		case ">":
			request = append(request, rest)
		case "<":
			s.expect(rest)
		default:
			s.Fatalf("%s: unknown line %q", s.where, lines.Text())
		}
	}
}

func (s *script) table(name string) *table.Table {
	s.Helper()
	name, zone, zoned := strings.Cut(name, "@")
	text, ok := documents[name]
	if !ok {
		s.Fatalf("%s: no table %q", s.where, name)
	}
	tab := parseTable(s, text, 0, start.Add(time.Duration(name[1]-'1')*time.Minute))
	if zoned {
		return tab.Zone(zone)
	}
	return tab
}

var variable = regexp.MustCompile(`\{[^}]+\}`)

func (s *script) expand(line string) string {
	return variable.ReplaceAllStringFunc(line, func(v string) string {
		name, what, _ := strings.Cut(strings.Trim(v, "{}"), " ")
		if what == "time" {
			return s.table(name).Time().Format(http.TimeFormat)
		}
		return s.table(name).Digest().String()
	})
}

func (s *script) act(args []string) {
	s.Helper()
	number := func(i int) uint64 {
		n, err := strconv.ParseUint(args[i], 10, 64)
		if err != nil {
			s.Fatalf("%s: %v", s.where, err)
		}
		return n
	}
	s.now = s.now.Add(time.Second)
	read := func(i int) table.Read {
		oldest, newest, cached := strings.Cut(args[i], "-")
		if !cached {
			return at(number(i), s.now)
		}
		var r table.Read
		if _, err := fmt.Sscan(oldest+" "+newest, &r.Oldest, &r.Newest); err != nil {
			s.Fatalf("%s: %v", s.where, err)
		}
		r.At = s.now
		return r
	}
	switch args[0] {
	case "publish":
		show(s.cache, s.table(args[1]), read(2))
	case "only":
		s.cache.Publish(s.table(args[1]).WithRevision(number(2)))
	case "restore":
		s.cache.Restore(s.table(args[1]).WithRevision(number(2)), start.Add(-time.Hour))
	case "poll":
		again(s.cache, read(1))
	case "held":
		r := read(1)
		r.Held = true
		again(s.cache, r)
	case "start":
		s.end = s.cache.Begin()
	case "finish":
		s.end(s.cache.Current(), read(1))
	case "recheck":
		s.check("rechecks", float64(s.rechecks), number(1))
	case "claims":
		s.check("claims", testutil.ToFloat64(s.metrics.Claims), number(1))
	case "older":
		s.check("older tables served", testutil.ToFloat64(s.metrics.OlderTables), number(1))
	default:
		s.Fatalf("%s: unknown action %q", s.where, args)
	}
}

func (s *script) check(what string, got float64, want uint64) {
	s.Helper()
	if got != float64(want) {
		s.Errorf("%s: %v %s, want %d", s.where, got, what, want)
	}
}

func (s *script) send(lines []string) {
	s.Helper()
	method, path, _ := strings.Cut(lines[0], " ")
	req, err := http.NewRequestWithContext(s.Context(), method, s.server.URL+path, nil)
	if err != nil {
		s.Fatalf("%s: %v", s.where, err)
	}
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ":")
		req.Header.Add(name, strings.TrimSpace(value))
	}
	if s.res, err = s.client.Do(req); err != nil {
		s.Fatalf("%s: %v", s.where, err)
	}
	s.body, err = io.ReadAll(s.res.Body)
	_ = s.res.Body.Close()
	if err != nil {
		s.Fatalf("%s: %v", s.where, err)
	}
	if vary := s.res.Header.Get("Vary"); vary != "Accept-Encoding" && (path == "/routes" || strings.Count(path, "/") == 2 && !strings.HasSuffix(path, "/")) {
		s.Errorf("%s: Vary is %q", s.where, vary)
	}
	if method != http.MethodHead && s.res.StatusCode != http.StatusNotModified && s.res.Header.Get("Content-Length") != strconv.Itoa(len(s.body)) {
		s.Errorf("%s: Content-Length is %q for %d bytes", s.where, s.res.Header.Get("Content-Length"), len(s.body))
	}
}

func (s *script) expect(line string) {
	s.Helper()
	what, rest, _ := strings.Cut(line, " ")
	switch {
	case len(what) == 3 && what[0] >= '1' && what[0] <= '5':
		if got := strconv.Itoa(s.res.StatusCode); got != what {
			s.Errorf("%s: status %s, want %s", s.where, got, what)
		}
	case what == "only":
		var got []string
		for name := range s.res.Header {
			if name != "Date" {
				got = append(got, name)
			}
		}
		want := strings.Fields(rest)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			s.Errorf("%s: headers %q, want %q", s.where, got, want)
		}
	case what == "body":
		s.expectBody(rest)
	case strings.HasPrefix(what, "-"):
		if got, ok := s.res.Header[what[1:]]; ok {
			s.Errorf("%s: %s is %q, want none", s.where, what[1:], got)
		}
	default:
		name := strings.TrimSuffix(what, ":")
		got, ok := s.res.Header[name]
		if !ok || len(got) != 1 || rest != "*" && got[0] != rest {
			s.Errorf("%s: %s is %q, want %q", s.where, name, got, rest)
		}
	}
}

func (s *script) expectBody(want string) {
	s.Helper()
	var text string
	if literal, err := strconv.Unquote(want); err == nil {
		text = literal
	} else {
		text = string(s.table(want).Text())
	}
	if got := decode(s, s.res.Header.Get("Content-Encoding"), s.body); got != text {
		s.Errorf("%s: body %q, want %q", s.where, got, text)
	}
}

// decode undoes a content coding.
func decode(t testing.TB, coding string, body []byte) string {
	t.Helper()
	var r io.Reader = bytes.NewReader(body)
	switch coding {
	case "":
	case "gzip":
		zr, err := gzip.NewReader(r)
		if err != nil {
			t.Fatal(err)
		}
		r = zr
	case "zstd":
		zr, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		defer zr.Close()
		r = zr
	default:
		t.Fatalf("unknown content coding %q", coding)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("decode %s: %v", coding, err)
	}
	return string(text)
}
