package page_test

import (
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/shadowdiff"
	"github.com/routesrv/routesrv/shadowdiff/page"
)

// artifacts is where screenshots are left for people; CI keeps the folder, git ignores it.
const artifacts = "../../artifacts"

// chromiumPath finds Chromium. Without it the test is skipped, except in CI.
func chromiumPath(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	const missing = "not tested without chromium: apt-get install chromium"
	if os.Getenv("CI") == "true" {
		t.Fatal(missing)
	}
	t.Skip(missing)
	return ""
}

// chromium runs the browser without a window and returns what it prints.
func chromium(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	profile, err := os.MkdirTemp("", "chromium") // not TempDir: children of the browser may still write after it has ended
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range 20 {
			if os.RemoveAll(profile) == nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	cmd := exec.CommandContext(ctx, chromiumPath(t), append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--hide-scrollbars", "--user-data-dir=" + profile,
		"--virtual-time-budget=3000",
	}, args...)...)
	cmd.WaitDelay = 5 * time.Second
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	return string(out)
}

// serve serves a view as the data plane does.
func serve(t *testing.T, v shadowdiff.Comparison) string {
	t.Helper()
	s := httptest.NewServer(page.Handler(func() shadowdiff.Comparison { return v }))
	t.Cleanup(s.Close)
	return s.URL
}

var visibleEntry = regexp.MustCompile(`<article [^>]*data-kind="(\w+)"([^>]*)>`)

// visible returns the kinds of the entries that are not hidden in a document.
func visible(dom string) string {
	var kinds []string
	for _, m := range visibleEntry.FindAllStringSubmatch(dom, -1) {
		if !strings.Contains(m[2], "hidden") {
			kinds = append(kinds, m[1])
		}
	}
	return strings.Join(kinds, " ")
}

func TestBrowserFiltersThePage(t *testing.T) {
	url := serve(t, sample(t))
	for _, c := range []struct{ address, shown, want string }{
		{url, "7 of 7 shown", "changed missing changed renamed changed extra changed"},
		{url + "#q=shop%2Fcart", "2 of 7 shown", "changed renamed"},
		{url + "#q=RouteGroup+missing", "1 of 7 shown", "missing"},
		{url + "#q=10.2.0.17", "1 of 7 shown", "changed"},
		{url + "#q=nothing+has+this", "0 of 7 shown", ""},
	} {
		dom := chromium(t, "--dump-dom", c.address)
		if !strings.Contains(dom, ">"+c.shown+"</output>") {
			t.Errorf("%s: no %q in the page: the script has not run, or found something else\n%s", c.address, c.shown, dom)
		}
		if got := visible(dom); got != c.want {
			t.Errorf("%s: shown are %q, want %q", c.address, got, c.want)
		}
		if strings.Contains(dom, "<title>taken over") {
			t.Errorf("%s: a script out of a route has run", c.address)
		}
	}
}

func TestBrowserShowsThePageThatIsAFile(t *testing.T) {
	v := sample(t)
	name := filepath.Join(t.TempDir(), "diff.html")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := page.Write(f, &v); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if dom := chromium(t, "--dump-dom", "file://"+name+"#q=checkout"); !strings.Contains(dom, ">2 of 7 shown</output>") {
		t.Errorf("the filter does not work in a file:\n%s", dom)
	}
}

func TestScreenshots(t *testing.T) {
	chromiumPath(t)
	if err := os.MkdirAll(artifacts, 0o755); err != nil {
		t.Fatal(err)
	}
	failed := sample(t)
	failed.Err = "B: http://routesrv.ingress.svc.cluster.local/routes: connection refused"
	same := sample(t)
	same.Watch, same.Report = nil, shadowdiff.Diff(parse(t, sampleA), parse(t, sampleA))
	for _, c := range []struct {
		name string
		url  string
		args []string
	}{
		{"shadow-diff.png", serve(t, sample(t)), []string{"--window-size=1440,1900"}},
		{"shadow-diff-dark.png", serve(t, sample(t)), []string{"--window-size=1440,1900", "--blink-settings=preferredColorScheme=0"}},
		{"shadow-diff-narrow.png", serve(t, failed), []string{"--window-size=600,1200"}},
		{"shadow-diff-same.png", serve(t, same), []string{"--window-size=1440,500"}},
	} {
		path, err := filepath.Abs(filepath.Join(artifacts, c.name))
		if err != nil {
			t.Fatal(err)
		}
		chromium(t, append(c.args, "--screenshot="+path, c.url)...)
		if info, err := os.Stat(path); err != nil || info.Size() < 10_000 {
			t.Errorf("%s: %v %v", c.name, info, err)
		}
	}
}
