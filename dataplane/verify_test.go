package dataplane_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/dataplane"
)

// TestBadAnswerLeavesEverythingAsItWas checks, for every kind of bad answer, the table in memory, the file, and the ETag of the
// next request.
func TestBadAnswerLeavesEverythingAsItWas(t *testing.T) {
	next := newTable(t, 2, "a", "b", "c")
	text := string(next.Text())
	// respond answers with a body under the name of the next table; change may modify the headers.
	respond := func(body []byte, change func(http.Header)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			h := w.Header()
			h.Set("Etag", etagOf(next, ""))
			h.Set("X-Count", "3")
			h.Set("X-Revision", "2")
			h.Set("Content-Length", strconv.Itoa(len(body)))
			if change != nil {
				change(h)
			}
			_, _ = w.Write(body)
		}
	}
	// otherKind answers as a server that is not ours.
	otherKind := func(body string, change func(http.Header)) http.HandlerFunc {
		return respond([]byte(body), func(h http.Header) {
			h.Del("X-Revision")
			h.Del("X-Count")
			h.Set("Etag", fmt.Sprintf(`"%x"`, sha256.Sum256([]byte(body))))
			if change != nil {
				change(h)
			}
		})
	}
	encoded := func(encoding string, body []byte) http.HandlerFunc {
		return respond(body, func(h http.Header) { h.Set("Content-Encoding", encoding) })
	}
	flip := func(b []byte) []byte {
		b = bytes.Clone(b)
		b[len(b)/2] ^= 0x10
		return b
	}
	bomb := bytes.Repeat([]byte("/"), 1<<20)

	for name, test := range map[string]struct {
		answer http.HandlerFunc
		want   dataplane.Reason
	}{
		"other text than the digest":   {respond([]byte(strings.Replace(text, "/a", "/x", 1)), nil), dataplane.ReasonDigest},
		"empty text":                   {respond(nil, func(h http.Header) { h.Set("X-Count", "0") }), dataplane.ReasonDigest},
		"route missing":                {respond([]byte(text[:strings.LastIndex(text, "\n")]), nil), dataplane.ReasonDigest},
		"other count":                  {respond([]byte(text), func(h http.Header) { h.Set("X-Count", "4") }), dataplane.ReasonCount},
		"no ETag of a server of ours":  {respond([]byte(text), func(h http.Header) { h.Del("Etag") }), dataplane.ReasonTag},
		"ETag of ours is cut":          {respond([]byte(text), func(h http.Header) { h.Set("Etag", etagOf(next, "")[:40]+`"`) }), dataplane.ReasonTag},
		"unknown encoding":             {encoded("br", []byte(text)), dataplane.ReasonEncoding},
		"two encodings":                {encoded("gzip, gzip", encode("gzip", []byte(text))), dataplane.ReasonEncoding},
		"text said to be gzip":         {encoded("gzip", []byte(text)), dataplane.ReasonEncoding},
		"text said to be zstd":         {encoded("zstd", []byte(text)), dataplane.ReasonEncoding},
		"garbled gzip":                 {encoded("gzip", flip(encode("gzip", []byte(text)))), dataplane.ReasonEncoding},
		"garbled zstd":                 {encoded("zstd", flip(encode("zstd", []byte(text)))), dataplane.ReasonEncoding},
		"cut gzip":                     {encoded("gzip", encode("gzip", []byte(text))[:50]), dataplane.ReasonEncoding},
		"cut zstd":                     {encoded("zstd", encode("zstd", []byte(text))[:50]), dataplane.ReasonEncoding},
		"no byte of gzip":              {encoded("gzip", nil), dataplane.ReasonEncoding},
		"no byte of zstd":              {encoded("zstd", nil), dataplane.ReasonDigest},
		"bytes behind gzip":            {encoded("gzip", append(encode("gzip", []byte(text)), "x"...)), dataplane.ReasonEncoding},
		"bytes behind zstd":            {encoded("zstd", append(encode("zstd", []byte(text)), "x"...)), dataplane.ReasonEncoding},
		"gzip of nothing, other kind":  {otherKind("", func(h http.Header) { h.Set("Content-Encoding", "gzip") }), dataplane.ReasonEncoding},
		"bomb of gzip":                 {encoded("gzip", encode("gzip", bomb)), dataplane.ReasonTooLarge},
		"bomb of zstd":                 {encoded("zstd", encode("zstd", bomb)), dataplane.ReasonTooLarge},
		"too large":                    {respond(bomb, nil), dataplane.ReasonTooLarge},
		"too large without length":     {respond(bomb, func(h http.Header) { h.Del("Content-Length") }), dataplane.ReasonTooLarge},
		"other kind, does not parse":   {otherKind("<html>It works!</html>", nil), dataplane.ReasonParse},
		"other kind, nothing is left":  {otherKind(`a: * -> "x"y"; b: Host(//) -> <shunt>;`, nil), dataplane.ReasonParse},
		"other kind, route without id": {otherKind(`* -> <shunt>`, nil), dataplane.ReasonParse},
		"other kind, without digest":   {otherKind(`a: * -> <shunt>;`, func(h http.Header) { h.Set("Etag", `"v2"`) }), dataplane.ReasonTag},
		"status 206":                   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(206) }, dataplane.ReasonStatus},
		"status 500":                   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, dataplane.ReasonStatus},
		"status 404":                   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, dataplane.ReasonNotReady},
		"redirect":                     {http.RedirectHandler("http://elsewhere/routes", http.StatusFound).ServeHTTP, dataplane.ReasonRedirect},
		"redirect on the same host":    {http.RedirectHandler("/routes/", http.StatusPermanentRedirect).ServeHTTP, dataplane.ReasonRedirect},
		"304 for what was not asked for": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Etag", etagOf(next, ""))
			w.WriteHeader(304)
		}, dataplane.ReasonProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			w.cfg.MaxBytes = 100_000
			c := w.client()
			first := newTable(t, 1, "a", "b")
			w.servers[0].set(first)
			mustPoll(t, c)
			file := readFile(t, fileOf(w.cfg))

			w.servers[0].fail(test.answer)
			failPoll(t, c, test.want)
			holds(t, c, first)
			if got := readFile(t, fileOf(w.cfg)); !bytes.Equal(got, file) {
				t.Errorf("the last-known-good file has changed:\n%s", got)
			}
			if len(w.published) != 1 || len(w.confirmed) != 0 {
				t.Errorf("%d tables published, %d times confirmed, want 1 and 0", len(w.published), len(w.confirmed))
			}
			s := c.Status().Servers[0]
			if s.Reason != string(test.want) || s.Failures != 1 || s.LastError == "" || s.RetryAt.IsZero() {
				t.Errorf("status of the server is %+v", s)
			}

			w.servers[0].fail(nil)
			mustPoll(t, c)
			want := etagOf(first, "+zstd")
			if test.want == dataplane.ReasonProtocol {
				want = "" // a 304 that makes no sense is not requested again
			}
			if got := w.servers[0].last(t).Header.Get("If-None-Match"); got != want {
				t.Errorf("the next request names %s, want %s", got, want)
			}
		})
	}
}

func TestNothingIsNamedBeforeTheFirstTable(t *testing.T) {
	w := newWorld(t, 1)
	c := w.client()
	w.servers[0].status(http.StatusNotModified)
	failPoll(t, c, dataplane.ReasonProtocol)
	r := w.servers[0].last(t)
	if got, named := r.Header["If-None-Match"]; named {
		t.Errorf("the first request names %s", got)
	}
	if got := r.Header.Get("Accept-Encoding"); got != "zstd, gzip" {
		t.Errorf("Accept-Encoding is %q", got)
	}
	holds(t, c, nil)
	fileHolds(t, fileOf(w.cfg), nil)
}

// TestBombIsNotUnpacked: decoding stops at the limit, whatever the full size would be.
func TestBombIsNotUnpacked(t *testing.T) {
	zeros := make([]byte, 128<<20)
	for _, encoding := range []string{"gzip", "zstd"} {
		bomb := encode(encoding, zeros)
		w := newWorld(t, 1)
		w.cfg.MaxBytes = 1 << 20
		c := w.client()
		w.servers[0].fail(func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Etag", etagOf(newTable(t, 1, "a"), ""))
			rw.Header().Set("Content-Encoding", encoding)
			rw.Header().Set("Content-Length", strconv.Itoa(len(bomb)))
			_, _ = rw.Write(bomb)
		})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		failPoll(t, c, dataplane.ReasonTooLarge)
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 32<<20 {
			t.Errorf("%s: %d MiB allocated for a bomb of %d KiB", encoding, got>>20, len(bomb)>>10)
		}
	}
}

func TestA304ToARequestThatNamedNothing(t *testing.T) {
	w := newWorld(t, 1)
	c := w.client()
	first := newTable(t, 1, "a", "b")
	w.servers[0].set(first)
	mustPoll(t, c)
	for _, etag := range []string{`"nonsense"`, etagOf(first, "+zstd")} { // the second request names no table
		w.servers[0].fail(func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Etag", etag)
			rw.WriteHeader(http.StatusNotModified)
		})
		failPoll(t, c, dataplane.ReasonProtocol)
	}
	w.servers[0].fail(nil)
	mustPoll(t, c)
	holds(t, c, first)
}

func TestBytesAreThoseOfTheServer(t *testing.T) {
	// The compiler writes a host of a RouteGroup in this way, the printer does not.
	tab := parseTable(t, `a: Host("^(a[.]org)$") -> "http://10.0.0.1";`+"\n"+`b: * -> <"http://10.0.0.1?zone=x", "http://10.0.0.2?zone=y">;`, 7)
	for _, encoding := range []string{"identity", "gzip", "zstd"} {
		t.Run(encoding, func(t *testing.T) {
			w := newWorld(t, 1)
			c := w.client()
			w.servers[0].encoding = encoding
			w.servers[0].set(tab)
			mustPoll(t, c)
			holds(t, c, tab)
			if got := c.Current(); got.Digest() != tab.Digest() || got.Revision() != 7 {
				t.Errorf("digest %s, revision %d", got.Digest(), got.Revision())
			}
			mustPoll(t, c)
			if got, want := w.servers[0].last(t).Header.Get("If-None-Match"), c.Status().Applied.ETag; got != want || got == "" {
				t.Errorf("the request names %s, the server said %s", got, want)
			}
			if len(w.published) != 1 || len(w.confirmed) != 1 {
				t.Errorf("%d tables published, %d times confirmed, want 1 and 1", len(w.published), len(w.confirmed))
			}
		})
	}
}

// TestServersOfAnotherKind checks what is accepted from servers that are not ours.
func TestServersOfAnotherKind(t *testing.T) {
	tab := newTable(t, 0, "a", "b")
	text := string(tab.Text())
	other := "// comment\nb: " + strings.SplitN(text, "b: ", 2)[1] + "\n\n" + strings.SplitN(text, "\n", 2)[0]
	otherTag := fmt.Sprintf(`"%x"`, sha256.Sum256([]byte(other)))
	for name, test := range map[string]struct {
		etag, encoding string
		body           string
		length         bool
		names          string // in the next request
	}{
		"the reference":               {`"` + tab.Digest().String() + `"`, "", text, true, `"` + tab.Digest().String() + `"`},
		"the reference, gzip chunked": {`"` + tab.Digest().String() + `+gzip"`, "gzip", text, false, `"` + tab.Digest().String() + `+gzip"`},
		"weak by a proxy":             {`W/"` + tab.Digest().String() + `"`, "gzip", text, false, `W/"` + tab.Digest().String() + `"`},
		"another form of document":    {otherTag, "", other, true, otherTag},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			c := w.client()
			w.servers[0].fail(func(rw http.ResponseWriter, r *http.Request) {
				rw.Header().Set("Etag", test.etag)
				if got := r.Header.Get("If-None-Match"); got == test.etag && got != "" {
					rw.WriteHeader(http.StatusNotModified)
					return
				}
				body := encode(test.encoding, []byte(test.body))
				rw.Header().Set("Content-Encoding", test.encoding)
				if test.length {
					rw.Header().Set("Content-Length", strconv.Itoa(len(body)))
				}
				_, _ = rw.Write(body)
			})
			mustPoll(t, c)
			holds(t, c, tab)
			mustPoll(t, c)
			holds(t, c, tab)
			if got := w.servers[0].last(t).Header.Get("If-None-Match"); got != test.names {
				t.Errorf("the next request names %q, want %q", got, test.names)
			}
			if len(w.published) != 1 || len(w.confirmed) != 1 {
				t.Errorf("%d tables published, %d times confirmed, want 1 and 1", len(w.published), len(w.confirmed))
			}
		})
	}
}

func TestZoneIsAskedForAsItIsKnown(t *testing.T) {
	path := t.TempDir() + "/zone"
	w := newWorld(t, 1)
	w.cfg.ZoneFile = path
	w.servers[0].set(newTable(t, 1, "a"))
	c := w.client()
	for _, test := range []struct{ content, path string }{
		{"-", "/routes"}, // no file
		{"", "/routes"},
		{"eu-central-1a\n", "/routes/eu-central-1a"},
		{"../status", "/routes"},
		{strings.Repeat("a", 64), "/routes"},
		{strings.Repeat("a", 5000), "/routes"},
		{"eu-central-1b", "/routes/eu-central-1b"},
	} {
		if test.content != "-" {
			if err := os.WriteFile(path, []byte(test.content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		mustPoll(t, c)
		if got := w.servers[0].last(t).URL.Path; got != test.path {
			t.Errorf("with %.20q in the file %s is asked for, want %s", test.content, got, test.path)
		}
	}
	if got := c.Status().Zone; got != "eu-central-1b" {
		t.Errorf("the status has the zone %q", got)
	}
}

func TestURLs(t *testing.T) {
	for url, want := range map[string]string{
		"http://a":                   "http://a/routes",
		"http://a/":                  "http://a/routes",
		"http://a/routes":            "http://a/routes",
		"http://a/routes/":           "http://a/routes",
		"https://a:9990/base/":       "https://a:9990/base/routes",
		"https://a/base/routes":      "https://a/base/routes",
		"http://user:secret@a/":      "http://user:xxxxx@a/routes",
		"http://[2001:db8::1]:9990/": "http://[2001:db8::1]:9990/routes",
	} {
		c, err := dataplane.New(dataplane.Config{URLs: []string{url}})
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if got := c.Status().Servers[0].URL; got != want {
			t.Errorf("%s gives %s, want %s", url, got, want)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for name, change := range map[string]func(*dataplane.Config){
		"no URL":              func(c *dataplane.Config) { c.URLs = nil },
		"not a URL":           func(c *dataplane.Config) { c.URLs = []string{"http://a:b:c"} },
		"another scheme":      func(c *dataplane.Config) { c.URLs = []string{"ftp://a"} },
		"no host":             func(c *dataplane.Config) { c.URLs = []string{"/routes"} },
		"a query":             func(c *dataplane.Config) { c.URLs = []string{"http://a?x=y"} },
		"a zone in the URL":   func(c *dataplane.Config) { c.URLs = []string{"http://a/routes/zone"} },
		"one URL twice":       func(c *dataplane.Config) { c.URLs = []string{"http://a/routes", "http://a"} },
		"zone twice":          func(c *dataplane.Config) { c.Zone, c.ZoneFile = "a", "b" },
		"zone with a slash":   func(c *dataplane.Config) { c.Zone = "a/b" },
		"zone with dots":      func(c *dataplane.Config) { c.Zone = ".." },
		"short interval":      func(c *dataplane.Config) { c.Interval = 1 },
		"unknown update mode": func(c *dataplane.Config) { c.UpdateMode = "push" },
		"guard":               func(c *dataplane.Config) { c.Guard.MaxLoss = 2 },
		"password in message": func(c *dataplane.Config) { c.URLs = []string{"http://user:secret@a?x"} },
	} {
		cfg := dataplane.Config{URLs: []string{"http://a"}}
		change(&cfg)
		if _, err := dataplane.New(cfg); err == nil {
			t.Errorf("%s is taken", name)
		} else if strings.Contains(fmt.Sprint(err), "secret") {
			t.Errorf("%s: the password is in %v", name, err)
		}
	}
}

// A zone is the value of a label, so it can be a path segment unchanged.
func TestZonesAreValuesOfLabels(t *testing.T) {
	for zone, want := range map[string]bool{
		"": true, "a": true, "9": true, "Zz09": true, "eu-central-1a": true, "a_b.c-d": true, strings.Repeat("a", 63): true,
		"-a": false, "a-": false, ".a": false, "a.": false, "_": false, "a b": false, "a%2f": false, "ä": false, "a/b": false, "@": false,
		"[": false, "`": false, "{": false, strings.Repeat("a", 64): false,
	} {
		if _, err := dataplane.NewZone(zone, ""); (err == nil) != want {
			t.Errorf("zone %q: %v, want it to be taken: %v", zone, err, want)
		}
	}
}

// endsProxies passes every check of a proxy, and then makes its process exit.
const endsProxies = `a: Path("/a") -> admissionControl("g", "active", "0s", 5, 10, 0.9, 0.95, 0.5) -> <shunt>;`

// TestBadLineOfAServerCostsOnlyItself: Skipper's route server prints texts that no reader can parse. A client of it keeps the other
// lines, reports what it left out, and names the server's table as before.
func TestBadLineOfAServerCostsOnlyItself(t *testing.T) {
	const good = `a: Path("/a") -> <shunt>;` + "\n" + `z: Path("/z") -> <shunt>;`
	for name, test := range map[string]struct {
		line string
		want string
		left int
	}{
		"a line feed in an address": {"m: * -> \"http\n://10.0.0.1:80\";", `m: * -> "http\n://10.0.0.1:80";`, 0},
		"a quote in an address":     {`m: * -> "http://a"b";`, "", 1},
		"an id twice":               {"m: * -> <shunt>;\nm: * -> <dynamic>;", `m: * -> <dynamic>;`, 1},
		"no expression":             {`m: Host(//) -> <shunt>;`, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			before, after, _ := strings.Cut(good, "\n")
			text := before + "\n" + test.line + "\n" + after
			clean := parseTable(t, good, 0)
			if test.want != "" {
				clean = parseTable(t, before+"\n"+test.want+"\n"+after, 0)
			}
			digest := sha256.Sum256([]byte(text))
			etag := `"` + hex.EncodeToString(digest[:]) + `"`
			w := newWorld(t, 1)
			c := w.client()
			served := 0
			w.servers[0].fail(func(rw http.ResponseWriter, r *http.Request) {
				rw.Header().Set("Etag", etag)
				if r.Header.Get("If-None-Match") == etag {
					rw.WriteHeader(http.StatusNotModified)
					return
				}
				served++
				rw.Header().Set("Content-Length", strconv.Itoa(len(text)))
				_, _ = rw.Write([]byte(text))
			})
			mustPoll(t, c)
			holds(t, c, clean)
			fileHolds(t, fileOf(w.cfg), clean)
			if got := c.Status().Applied.LeftOut; got != test.left {
				t.Errorf("%d parts are left out, want %d", got, test.left)
			}
			if got := w.log.count(dataplane.LogPartsLeftOut); got != test.left {
				t.Errorf("logged %d times, want %d", got, test.left)
			}
			mustPoll(t, c) // 304, by the server's name
			mustPoll(t, c)
			holds(t, c, clean)
			if served != 1 {
				t.Errorf("the table was sent %d times, want once", served)
			}
			// A table of ours with the same text, as an older version may have: its count includes what is left out.
			w.servers[0].fail(func(rw http.ResponseWriter, r *http.Request) {
				for k, v := range map[string]string{"Etag": etag[:len(etag)-1] + `.9"`, "X-Revision": "9", "X-Count": "3", "Content-Length": strconv.Itoa(len(text))} {
					rw.Header().Set(k, v)
				}
				if test.line != "m: * -> <shunt>;\nm: * -> <dynamic>;" && r.Header.Get("A-IM") == "" {
					_, _ = rw.Write([]byte(text))
				} else {
					t.Errorf("a delta is asked for, which cannot apply")
				}
			})
			if name != "an id twice" {
				mustPoll(t, c)
				if got := c.Current(); got.Digest() != clean.Digest() || got.Revision() != 9 {
					t.Errorf("digest %s with revision %d", got.Digest(), got.Revision())
				}
			}
		})
	}
}
