package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/internal/browser"
	"github.com/routesrv/routesrv/internal/programs"
)

// inABrowser uses the site as people do: the search finds a page, the menu has the versions, and everything comes from the site.
func inABrowser(t *testing.T, out string) {
	// Another version, which need not be different here.
	if err := errors.Join(replace(filepath.Join(out, "v0.0.9"), filepath.Join(out, "v0.1.0")), writeVersions(out)); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.FileServer(http.Dir(out)))
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	programs.Tool(t, "chromium", browser.Names()...)
	b, err := browser.Start(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	p, err := b.NewPage(ctx, browser.Options{Width: 1280, Height: 900})
	must(err)
	must(p.Open(ctx, server.URL+"/"))
	must(p.ClickTo(ctx, "a[href='v0.1.0/index.html']"))
	must(p.Until(ctx, "document.querySelectorAll('.md-version__link').length > 0"))
	var versions []string
	must(p.Eval(ctx, "[...document.querySelectorAll('.md-version__link')].map(a => a.textContent.trim())", &versions))
	if d := cmp.Diff([]string{"v0.1.0", "v0.0.9"}, versions); d != "" {
		t.Errorf("versions in the menu: %s", d)
	}
	must(p.Type(ctx, ".md-search__input", "refuses the switch"))
	must(p.Until(ctx, "document.querySelectorAll('.md-search-result__link').length > 0"))
	var found []string
	must(p.Eval(ctx, "[...document.querySelectorAll('.md-search-result__link')].map(a => new URL(a.href).pathname)", &found))
	if !slices.Contains(found, "/v0.1.0/rollout.html") {
		t.Errorf("the search found %q", found)
	}
	must(p.Open(ctx, server.URL+"/v0.1.0/rollout.html"))
	must(p.Until(ctx, "document.querySelectorAll('.md-version__link').length > 1"))
	// The menu opens under the mouse; the script of the theme answers clicks on its links.
	must(p.Eval(ctx, "[...document.querySelectorAll('.md-version__link')].find(a => a.textContent.trim() === 'v0.0.9').click()", nil))
	must(p.Until(ctx, "location.pathname === '/v0.0.9/rollout.html'"))
	must(p.Until(ctx, "[...document.querySelectorAll('.md-banner--warning a')].some(a => a.checkVisibility() && a.href.endsWith('/latest/index.html'))"))
	var elsewhere []string
	must(p.Eval(ctx, "performance.getEntriesByType('resource').map(e => e.name).filter(n => new URL(n).origin !== location.origin && !n.startsWith('data:'))", &elsewhere))
	if len(elsewhere) > 0 {
		t.Errorf("loaded from elsewhere: %q", elsewhere)
	}
	for _, problem := range p.Problems() {
		if !strings.Contains(problem, "/favicon.ico") {
			t.Errorf("the browser says %s", problem)
		}
	}
}
