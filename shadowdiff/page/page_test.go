package page_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/shadowdiff"
	"github.com/routesrv/routesrv/shadowdiff/page"
)

var update = flag.Bool("update", false, "rewrite the golden file")

func render(t *testing.T, v shadowdiff.Comparison) string {
	t.Helper()
	var b bytes.Buffer
	if err := page.Write(&b, &v); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var (
	styleText  = regexp.MustCompile(`(?s)<style>(.*?)</style>`)
	scriptText = regexp.MustCompile(`(?s)<script>(.*?)</script>`)
	policyText = regexp.MustCompile(`<meta http-equiv="Content-Security-Policy" content="[^"]*">`)
)

// TestGoldenPage compares the page without style, script and their hashes, which are in separate files.
func TestGoldenPage(t *testing.T) {
	got := render(t, sample(t))
	got = styleText.ReplaceAllString(got, "<style></style>")
	got = scriptText.ReplaceAllString(got, "<script></script>")
	got = policyText.ReplaceAllString(got, `<meta http-equiv="Content-Security-Policy">`)
	const name = "testdata/page.html"
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPageNeedsNothingElse(t *testing.T) {
	got := render(t, sample(t))
	if m := regexp.MustCompile(`(?i)\s(src|href|action|srcset)=|url\(|@import`).FindAllString(got, -1); len(m) > 0 {
		t.Errorf("the page refers to something: %q", m)
	}
	for _, part := range []*regexp.Regexp{styleText, scriptText} {
		all := part.FindAllStringSubmatch(got, -1)
		if len(all) != 1 {
			t.Fatalf("%d of %v, want 1: did a route get through?", len(all), part)
		}
		sum := sha256.Sum256([]byte(all[0][1]))
		hash := "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
		// Some characters of the hash are escaped in the attribute.
		if policy := unescape(policyText.FindString(got)); !strings.Contains(policy, "'"+hash+"'") {
			t.Errorf("%v is not what the policy allows: %s not in %s", part, hash, policy)
		}
	}
	if regexp.MustCompile(`\son\w+=|\sstyle=`).MatchString(got) {
		t.Error("there are attributes that the policy forbids")
	}
}

func unescape(s string) string {
	return strings.NewReplacer("&#39;", "'", "&#43;", "+", "&#34;", `"`).Replace(s)
}

func TestLargePageIsCut(t *testing.T) {
	got := render(t, many(t, 2500))
	if n := strings.Count(got, "<article"); n != 1000 {
		t.Errorf("%d entries, want 1000", n)
	}
	if !strings.Contains(got, "1500 more differences are not on this page") {
		t.Error("nothing says that there are more")
	}
	long := many(t, 1)
	long.Report = shadowdiff.Diff(parse(t, "a: *"+strings.Repeat(" -> f()", 300)+" -> <shunt>"), nil)
	if got := render(t, long); strings.Count(got, "<tr") != 202 || !strings.Contains(got, "101 more parts") {
		t.Errorf("%d rows", strings.Count(got, "<tr"))
	}
}

func TestEndpointsThatAreTheSameAreFolded(t *testing.T) {
	v := shadowdiff.Comparison{Report: shadowdiff.Diff(
		parse(t, `a: * -> <"http://a", "http://b", "http://c", "http://d", "http://e", "http://f">`),
		parse(t, `a: * -> <"http://a", "http://b", "http://c", "http://d2", "http://e", "http://f">`))}
	got := render(t, v)
	if !strings.Contains(got, "3 endpoints are the same") || !strings.Contains(got, "<code>http://e</code>") {
		t.Error(got)
	}
}

func TestIgnoredPartsAreShownAsSuch(t *testing.T) {
	v := shadowdiff.Comparison{Report: shadowdiff.Diff(
		parse(t, `a: * -> f(1) -> <"http://a">`), parse(t, `a: * -> f(2) -> <"http://b">`)).Without(shadowdiff.Ignore{Endpoints: true})}
	got := render(t, v)
	if strings.Count(got, `<tr class="ignored">`) != 2 || strings.Count(got, `<tr class="replaced">`) != 1 {
		t.Error(got)
	}
}

func TestHandlerChoosesTheForm(t *testing.T) {
	const text, html, js = "text/plain; charset=utf-8", "text/html; charset=utf-8", "application/json; charset=utf-8"
	h := page.Handler(func() shadowdiff.Comparison { return sample(t) })
	for _, c := range []struct{ query, accept, want string }{
		{"", "", text},
		{"", "*/*", text},
		{"", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", html}, // a browser
		{"", "application/json", js},
		{"", "APPLICATION/JSON ; Q=1", js},
		{"", "text/*", text},
		{"", "text/*;q=0.5, application/json;q=0.6", js},
		{"", "text/html, application/json", html},
		{"", "image/png", text},
		{"?format=json", "text/html", js},
		{"?format=html", "", html},
		{"?format=text", "text/html", text},
		{"?format=xml", "text/html", ""},
	} {
		r := httptest.NewRequest(http.MethodGet, "/shadow"+c.query, nil)
		if c.accept != "" {
			r.Header.Set("Accept", c.accept)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if c.want == "" {
			if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "must be text, html or json") {
				t.Errorf("%+v: %d %s", c, w.Code, w.Body)
			}
			continue
		}
		if got := w.Header().Get("Content-Type"); got != c.want || w.Code != http.StatusOK {
			t.Errorf("%+v: %d %s", c, w.Code, got)
		}
	}
}

func TestHandlerSays(t *testing.T) {
	s := httptest.NewServer(page.Handler(func() shadowdiff.Comparison { return sample(t) }))
	t.Cleanup(s.Close)
	get := func(method, query string) (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, s.URL+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := s.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(body)
	}
	resp, body := get(http.MethodGet, "?format=html")
	for name, want := range map[string]string{
		"Cache-Control": "no-store", "Vary": "Accept", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
	} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if p := resp.Header.Get("Content-Security-Policy"); !strings.Contains(p, "default-src 'none'") || !strings.Contains(p, "frame-ancestors 'none'") {
		t.Errorf("policy %q", p)
	}
	if !strings.Contains(body, `<a href="?format=json">`) {
		t.Error("no link to the JSON form")
	}
	_, body = get(http.MethodGet, "?format=json")
	var decoded struct {
		Result      string
		Differences []struct{ Kind string }
	}
	if err := json.Unmarshal([]byte(body), &decoded); err != nil || decoded.Result != "different" || len(decoded.Differences) != 7 {
		t.Errorf("%v: %s", err, body)
	}
	if resp, body := get(http.MethodHead, "?format=text"); resp.ContentLength <= 0 || body != "" {
		t.Errorf("HEAD: %d %q", resp.ContentLength, body)
	}
}

func TestErrorsOfTheWriterAreReported(t *testing.T) {
	v := sample(t)
	if page.Write(failing{}, &v) == nil {
		t.Error("no error")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
