package server_test

import (
	"context"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

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
	if text, err := p.Text(ctx, "body"); err != nil || !strings.Contains(text, "Ingress shop/broken") || !strings.Contains(text, "gone") {
		t.Errorf("the explanation: %q (%v)", text, err)
	}
	f.delete("broken")
	f.may(p.Open(ctx, "http://"+f.support+"/"))
	f.may(p.Until(ctx, "document.querySelector('#problems').innerText.includes('Every object is served')"))
}

// TestConsoleShowsAHoldAndItsAcceptance: an operator looks at what is held, accepts it in the pod, and the page says so.
func TestConsoleShowsAHoldAndItsAcceptance(t *testing.T) {
	f := start(t, service+ingresses(shops(10)...), nil)
	f.ready()
	p, ctx := f.page("/")
	f.may(p.Until(ctx, "document.querySelector('#guard').innerText.includes('No table held')"))
	f.delete(shops(10)[:9]...)
	f.may(p.Until(ctx, "document.querySelector('#guard .accept') !== null"))
	if shown, err := p.Text(ctx, "#guard"); err != nil || !strings.Contains(shown, "Ingress shop/shop3") {
		t.Errorf("the kept objects are not there: %q %v", shown, err)
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

// TestObjectsLinkToTheirExplanation: the overview shows the ETag of the served table, and where an object is explained.
func TestObjectsLinkToTheirExplanation(t *testing.T) {
	f := start(t, service+ingress("a")+strings.ReplaceAll(ingress("b"), "name: s,", "name: gone,"), everything)
	f.ready()
	body := f.request("GET", f.support, "/?namespace=shop").body
	if tag := strings.Trim(f.get("/routes").header.Get("Etag"), `"`); !strings.Contains(body, tag) {
		t.Errorf("no ETag %s in\n%s", tag, body)
	}
	link := regexp.MustCompile(`href="(explain[^"]+)"`).FindStringSubmatch(body)
	if link == nil {
		t.Fatalf("no link to an explanation in\n%s", body)
	}
	got := f.request("GET", f.support, "/"+html.UnescapeString(link[1]))
	if got.status != http.StatusOK || !strings.Contains(got.body, "Ingress shop/b") || !strings.Contains(got.body, "Create the Service") {
		t.Errorf("GET /%s: %d\n%s", link[1], got.status, got.body)
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
