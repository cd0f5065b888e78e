package pages_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/fleet"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
	"github.com/routesrv/routesrv/test/browser"
	"github.com/routesrv/routesrv/test/programs"
)

// artifacts is where screenshots are left for people; CI keeps the folder, git ignores it.
const artifacts = "../../artifacts"

// start starts a browser that ends with the test. Without Chromium the test is skipped, except in CI.
func start(t *testing.T) (*browser.Browser, context.Context) {
	t.Helper()
	programs.Tool(t, "chromium", browser.Names()...)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	b, err := browser.Start(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close(); cancel() })
	return b, ctx
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// must fails the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, b *browser.Browser, ctx context.Context, o browser.Options, url string) *browser.Page {
	t.Helper()
	p, err := b.NewPage(ctx, o)
	must(t, err)
	must(t, p.Open(ctx, url))
	return p
}

// crowded is a world with long names everywhere.
func crowded() *world {
	w := newWorld()
	long := strings.Repeat("very-long-name-of-something", 6)
	now := time.Now()
	for _, s := range append([]string{long, "short"}, hostile...) {
		w.problems = append(w.problems, problem(s, s, rules.Error, s), problem(s, s, rules.Warning, long))
		w.view.Clients = append(w.view.Clients, fleet.Client{
			ID: s, Kind: fleet.Sidecar, Zone: s, Version: s, Node: s, Address: s, Replica: s, State: fleet.Behind, BehindVersions: 2, BehindSeconds: 30, Reason: s,
			LastHeard: now, Holds: &fleet.Table{Revision: 12345678901},
		})
		w.view.Zones = append(w.view.Zones, fleet.Group{Name: s, Counts: fleet.Counts{Behind: 1, Current: 3}})
		w.view.Replicas = append(w.view.Replicas, fleet.Replica{Name: s, Address: s, Error: s})
		w.view.Relays = append(w.view.Relays, fleet.Relay{ID: s, Total: 3, Counts: fleet.Counts{Current: 3}})
	}
	w.view.Versions, w.view.Counts, w.view.Total = w.view.Zones, fleet.Counts{Behind: 10, Current: 30}, 40
	w.state.Guard = api.Guard{Held: true, Reason: "routes_lost", Detail: long, Digest: table.Digest(bytes.Repeat([]byte{0xab}, 32)), Since: now}
	w.state.Source.LastError, w.state.Source.Failures = long, 3
	w.state.Trial = &api.Trial{Build: long, Silent: long, Lapsed: 1, Unused: true, Failed: []api.TrialFailure{{Text: long, Verdict: "died", Words: long, At: now}}}
	w.state.Takeovers = []api.Takeover{{
		At: now, From: kube.Ref{Kind: kube.KindIngress, Namespace: long, Name: long}, To: kube.Ref{Kind: kube.KindRouteGroup, Namespace: long, Name: long}, Lost: 1, Example: long,
	}}
	return w
}

var pages = []string{"/", "/fleet"}

// TestBrowserShowsPagesOnAPhone: nothing is wider than the screen, however long the names are.
func TestBrowserShowsPagesOnAPhone(t *testing.T) {
	b, ctx := start(t)
	url := serve(t, handler(crowded().config()))
	p, err := b.NewPage(ctx, browser.Options{Width: 360, Height: 740, Phone: true})
	must(t, err)
	for _, target := range pages {
		must(t, p.Open(ctx, url+target))
		var width int
		must(t, p.Eval(ctx, "document.documentElement.scrollWidth", &width))
		if width > 360 {
			var wide string
			must(t, p.Eval(ctx, "[...document.querySelectorAll('main *')].filter(e => !e.closest('.scroll') && e.getBoundingClientRect().right > 361).map(e => e.outerHTML.slice(0, 120)).slice(0, 5).join('\\n')", &wide))
			t.Errorf("%s is %d pixels wide: %s", target, width, wide)
		}
		var hidden string
		must(t, p.Eval(ctx, "[...document.querySelectorAll('table.stacked td')].filter(e => e.textContent.trim() && e.getBoundingClientRect().right > 361).map(e => e.outerHTML.slice(0, 120)).slice(0, 5).join('\\n')", &hidden))
		if hidden != "" {
			t.Errorf("%s hides cells beside the screen: %s", target, hidden)
		}
	}
	must(t, p.Open(ctx, url+"/fleet"))
	var behind int
	must(t, p.Eval(ctx, "[...document.querySelectorAll('td[data-label=\"Behind by\"]')].filter(e => e.offsetHeight > 0 && e.textContent.includes('2 tables')).length", &behind))
	if behind == 0 {
		t.Error("the page of the fleet does not show how far clients are behind")
	}
}

// TestBrowserRunsNothingFromOutside: names are never run as scripts, and the browser reports no problems.
func TestBrowserRunsNothingFromOutside(t *testing.T) {
	b, ctx := start(t)
	url := serve(t, handler(crowded().config()))
	p, err := b.NewPage(ctx, browser.Options{Width: 1200, Height: 800})
	must(t, err)
	for _, target := range pages {
		must(t, p.Open(ctx, url+target))
		var title string
		must(t, p.Eval(ctx, "document.title", &title))
		if strings.Contains(title, "taken over") && !strings.Contains(title, "<script>") || !strings.Contains(title, "routesrv") {
			t.Errorf("%s: title %q", target, title)
		}
	}
	for _, problem := range p.Problems() {
		if !strings.Contains(problem, "the server responded with a status of") { // pages that respond with 404 or 503
			t.Error(problem)
		}
	}
}

// TestBrowserFollowsTheColourScheme: dark where the system is dark, with readable text in both schemes.
func TestBrowserFollowsTheColourScheme(t *testing.T) {
	b, ctx := start(t)
	url := serve(t, handler(crowded().config()))
	const contrast = `(() => {
		const parse = c => c.match(/[\d.]+/g).map(Number);
		const light = ([r, g, b]) => { const f = v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; return .2126 * f(r) + .7152 * f(g) + .0722 * f(b); };
		let worst = {ratio: 99};
		for (const e of document.querySelectorAll("main *, header *")) {
			if (!e.checkVisibility() || ![...e.childNodes].some(n => n.nodeType === 3 && n.nodeValue.trim())) continue;
			let back = e, under;
			do { under = parse(getComputedStyle(back).backgroundColor); back = back.parentElement; } while ((under[3] ?? 1) < 0.7 && back);
			const a = light(parse(getComputedStyle(e).color)), c = light(under);
			const ratio = (Math.max(a, c) + .05) / (Math.min(a, c) + .05);
			if (ratio < worst.ratio) worst = {ratio, what: e.outerHTML.slice(0, 160)};
		}
		return worst;
	})()`
	for _, dark := range []bool{false, true} {
		p := open(t, b, ctx, browser.Options{Width: 1200, Height: 800, Dark: dark}, url)
		var back string
		must(t, p.Eval(ctx, "getComputedStyle(document.body).backgroundColor", &back))
		if isDark := strings.HasPrefix(back, "rgb(1"); isDark != dark {
			t.Errorf("dark %v: the background is %s", dark, back)
		}
		for _, target := range pages {
			must(t, p.Open(ctx, url+target))
			var worst struct {
				Ratio float64
				What  string
			}
			must(t, p.Eval(ctx, contrast, &worst))
			if worst.Ratio < 4.5 {
				t.Errorf("dark %v, %s: contrast %.2f in %s", dark, target, worst.Ratio, worst.What)
			}
		}
	}
}

// TestBrowserFiltersWithoutScripts uses the form with scripts turned off.
func TestBrowserFiltersWithoutScripts(t *testing.T) {
	b, ctx := start(t)
	w := newWorld()
	w.problems = append(w.problems, problem("shop", "cart", rules.Error, "no such thing"), problem("pay", "wallet", rules.Warning, "odd"))
	url := serve(t, handler(w.config()))
	p := open(t, b, ctx, browser.Options{Width: 1200, Height: 800, NoScripts: true}, url)
	rows := func() string {
		text, err := p.Text(ctx, ".problems tbody")
		must(t, err)
		return text
	}
	if all := rows(); !strings.Contains(all, "shop/cart") || !strings.Contains(all, "pay/wallet") {
		t.Fatalf("rows %q", all)
	}
	must(t, p.Type(ctx, "input[name=namespace]", "pay"))
	must(t, p.ClickTo(ctx, ".filter button"))
	if some := rows(); strings.Contains(some, "shop/cart") || !strings.Contains(some, "pay/wallet") {
		t.Errorf("after the filter: %q", some)
	}
	must(t, p.ClickTo(ctx, ".namespaces a:not(.chosen)"))
	if some := rows(); !strings.Contains(some, "shop/cart") || strings.Contains(some, "pay/wallet") {
		t.Errorf("after a click on a namespace: %q", some)
	}
	live, err := p.Text(ctx, "#live")
	must(t, err)
	if live != "" {
		t.Errorf("without scripts the page says %q", live)
	}
}

// TestBrowserKeepsWhatAPersonDoes: updates leave a text that is being typed alone, and a paused page does not change.
func TestBrowserKeepsWhatAPersonDoes(t *testing.T) {
	b, ctx := start(t)
	w := holding()
	w.state.Source.LastSuccess = time.Now()
	w.problems = append(w.problems, problem("pay", "wallet", rules.Error, "no such thing"))
	url := serve(t, handler(w.config()))
	p := open(t, b, ctx, browser.Options{Width: 1200, Height: 800}, url)
	must(t, p.Type(ctx, ".filter input[name=q]", "ana"))
	w.mu.Lock()
	w.problems = append(w.problems, problem("shop", "cart", rules.Error, "no such thing"))
	w.state.Guard.Detail = "from 10 to 1"
	w.mu.Unlock()
	must(t, p.Until(ctx, "document.querySelector('.problems')?.innerText.includes('shop/cart')"))
	must(t, p.Until(ctx, "document.querySelector('#guard').innerText.includes('from 10 to 1')"))
	must(t, p.Until(ctx, "document.activeElement.name === 'q' && document.activeElement.value === 'ana'"))
	must(t, p.Click(ctx, "#pause"))
	must(t, p.Until(ctx, "document.querySelector('#beat').innerText.includes('paused')"))
	w.mu.Lock()
	w.state.Guard = api.Guard{}
	w.mu.Unlock()
	var held bool
	must(t, p.Eval(ctx, "new Promise(done => setTimeout(() => done(document.querySelector('#guard.alarm') !== null), 400))", &held))
	if !held {
		t.Error("a paused page has changed")
	}
	must(t, p.Click(ctx, "#pause"))
	must(t, p.Until(ctx, "document.querySelector('#guard.alarm') === null"))
}

// TestBrowserSaysThatItLostTheServer: a page that is no longer live says so.
func TestBrowserSaysThatItLostTheServer(t *testing.T) {
	b, ctx := start(t)
	s := httptest.NewServer(handler(newWorld().config()))
	defer s.Close()
	p := open(t, b, ctx, browser.Options{Width: 1200, Height: 800}, s.URL)
	must(t, p.Until(ctx, "document.querySelector('#beat').innerText === '● live'"))
	s.CloseClientConnections()
	s.Close()
	must(t, p.Until(ctx, "document.querySelector('#beat').innerText.includes('no answer for')"))
}

func TestConsoleScreenshots(t *testing.T) {
	b, ctx := start(t)
	must(t, os.MkdirAll(artifacts, 0o755))
	cfg := crowded().config()
	url := serve(t, handler(cfg))
	for _, c := range []struct {
		name, target string
		options      browser.Options
	}{
		{"console.png", "/", browser.Options{Width: 1280, Height: 900}},
		{"console-dark.png", "/", browser.Options{Width: 1280, Height: 900, Dark: true}},
		{"console-phone.png", "/", browser.Options{Width: 390, Height: 844, Phone: true}},
		{"console-fleet.png", "/fleet", browser.Options{Width: 1280, Height: 900}},
	} {
		p := open(t, b, ctx, c.options, url+c.target)
		shot, err := p.Screenshot(ctx, 0)
		must(t, err)
		if len(shot) < 10_000 {
			t.Errorf("%s has %d bytes", c.name, len(shot))
		}
		must(t, os.WriteFile(filepath.Join(artifacts, c.name), shot, 0o644))
	}
}
