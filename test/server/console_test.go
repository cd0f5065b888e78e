package server_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/app/server"
	"github.com/routesrv/routesrv/test/browser"
	"github.com/routesrv/routesrv/test/programs"
)

// page opens a page of the support listener in a browser. Without Chromium the test is skipped, except in CI.
func (f *fixture) page(path string) (*browser.Page, context.Context) {
	f.t.Helper()
	return f.pageOf(path, 1200)
}

// pageOf is page in a window of some width.
func (f *fixture) pageOf(path string, width int) (*browser.Page, context.Context) {
	f.t.Helper()
	programs.Tool(f.t, "chromium", browser.Names()...)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	b, err := browser.Start(ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { b.Close(); cancel() })
	p, err := b.NewPage(ctx, browser.Options{Width: width, Height: 900})
	if err == nil {
		err = p.Open(ctx, "http://"+f.support+path)
	}
	f.may(err)
	return p, ctx
}

// may fails the test on an error.
func (f *fixture) may(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// TestPlantedProblemShowsUpLive: an operator with the page open sees what a team has just broken, and can follow it.
func TestPlantedProblemShowsUpLive(t *testing.T) {
	f := start(t, service+ingress("a"), everything)
	f.ready()
	p, ctx := f.page("/")
	f.may(p.Until(ctx, "document.querySelector('#problems').innerText.includes('Every object is served')"))
	f.apply(strings.Replace(ingress("broken"), "name: s,", "name: gone,", 1))
	f.may(p.Until(ctx, "document.querySelector('.problems')?.innerText.includes('shop/broken')"))
	f.may(p.ClickTo(ctx, ".problems a"))
	for selector, want := range map[string]string{"h1": "Object", ".answer": "gone", ".answer .state": "error"} {
		if text, err := p.Text(ctx, selector); err != nil || !strings.Contains(text, want) {
			t.Errorf("%s of the page of the object: %q, want %q (%v)", selector, text, want, err)
		}
	}
	f.delete("broken")
	f.may(p.Until(ctx, "document.querySelector('.answer .state').innerText.includes('not found')"))
}

// TestConsoleShowsAHoldAndItsAcceptance: an operator looks at what is held, accepts it in the pod, and the page says so.
func TestConsoleShowsAHoldAndItsAcceptance(t *testing.T) {
	f := start(t, service+ingresses(shops(10)...), nil)
	f.ready()
	p, ctx := f.page("/")
	f.may(p.Until(ctx, "document.querySelector('#guard').innerText.includes('No table held')"))
	f.delete(shops(10)[:9]...)
	f.may(p.Until(ctx, "document.querySelector('#guard .counts')?.innerText.includes('routes go')"))
	if shown, err := p.Text(ctx, "#guard"); err != nil || !strings.Contains(shown, "Ingress shop/shop3") {
		t.Errorf("the owners are not there: %q %v", shown, err)
	}
	before := f.get("/routes").body
	if got := f.accept("?" + url.Values{"digest": {f.held().Digest.String()}, "by": {"ana"}, "why": {"the shops moved <b>away</b>"}}.Encode()); got.status != http.StatusOK {
		t.Fatalf("accept: %d %s", got.status, got.body)
	}
	f.may(p.Until(ctx, "document.querySelector('#guard').innerText.includes('accepted by ana, because “the shops moved <b>away</b>”')"))
	if after := f.get("/routes").body; strings.Contains(after, "shop3") || after == before {
		t.Errorf("the table that was accepted is not served:\n%s", after)
	}
}

// TestConsoleShowsWhoAsks: a client appears on the pages soon after it has requested the table.
func TestConsoleShowsWhoAsks(t *testing.T) {
	f := start(t, service+ingress("a"), nil)
	f.ready()
	tag := f.get("/routes", "User-Agent: Skipper").header.Get("Etag")
	f.get("/routes", "User-Agent: Skipper", "If-None-Match: "+tag)
	f.eventually("client on the page of the fleet", func() bool {
		body := f.request("GET", f.support, "/fleet").body
		return strings.Contains(body, "127.0.0.1 Skipper") && strings.Contains(body, "inferred") && strings.Contains(body, "current")
	})
}

// TestMainListenerHasNoPages: / of the main listener answers as in the reference.
func TestMainListenerHasNoPages(t *testing.T) {
	f := start(t, service+ingress("a"), everything)
	f.ready()
	for _, path := range []string{"/", "/fleet", "/object", "/assets/console.css"} {
		if got := f.get(path); got.status != http.StatusNotFound || got.body != "404 page not found\n" {
			t.Errorf("GET %s: %d %q", path, got.status, got.body)
		}
	}
}

// TestPagesAnswerQuestions: they give the answers of /match and /explain.
func TestPagesAnswerQuestions(t *testing.T) {
	f := start(t, service+ingress("a"), func(cfg *server.Config) { cfg.MaxStreams = 1 })
	f.ready()
	for path, want := range map[string]string{
		"/request?url=http%3A%2F%2Fa.example.org%2Fx&headers=X-A%3A+1%0AX-B%3A+2&method=": "kube_shop__a__a_example_org",
		"/request?url=http%3A%2F%2Fb.example.org%2Fx":                                     "no route",
		"/request?url=nonsense":                           "must be the URL of a request",
		"/object?kind=ingress&namespace=shop&name=a":      "Ingress shop/a",
		"/object?host=a.example.org":                      "Ingress shop/a",
		"/object?kind=ingress&namespace=shop&name=nobody": "not found",
		"/object?kind=pod&namespace=shop&name=a":          "must be ingress or routegroup",
		"/?namespace=shop":                                "", // the ETag
	} {
		got := f.request("GET", f.support, path)
		if path == "/?namespace=shop" {
			tag := strings.Trim(f.get("/routes").header.Get("Etag"), `"`)
			want = tag
		}
		if !strings.Contains(got.body, want) || got.status >= 500 {
			t.Errorf("GET %s: %d, no %q in\n%s", path, got.status, want, got.body)
		}
	}
}

// TestPhoneShowsWhoTakesRequests: the object that takes requests is not cut off.
func TestPhoneShowsWhoTakesRequests(t *testing.T) {
	f := startReading(t, backend("s", "10.2.0.1")+ingresses("cart-with-a-long-name"), true, nil)
	f.polled()
	f.apply(taking("other", "cart-with-a-long-name"))
	f.eventually("the takeover", func() bool { return len(f.noticed()) == 1 })
	p, ctx := f.pageOf("/", 375)
	var right float64
	f.may(p.Eval(ctx, "Math.max(...[...document.querySelectorAll('#takeovers td')].map(e => e.getBoundingClientRect().right))", &right))
	if text, err := p.Text(ctx, "#takeovers tbody"); err != nil || !strings.Contains(text, "other/all") || right > 375 {
		t.Errorf("the table is %v wide and says %q (%v)", right, text, err)
	}
}
