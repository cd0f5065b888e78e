// Package browser opens pages in a headless Chromium, for tests that use pages as people do, and for screenshots. It sets up chromedp
// the way both need it. It is for tests and tools only.
package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Names returns the names that Chromium has on different machines.
func Names() []string { return []string{"chromium", "chromium-browser", "google-chrome"} }

// Browser is a running Chromium. Start one with [Start], and Close it. It is safe for concurrent use.
type Browser struct {
	ctx context.Context // of chromedp, for new pages
	end context.CancelFunc

	mu   sync.Mutex
	tabs []context.Context
}

// Start starts a headless Chromium with a new profile. It ends when the context ends, or with Close.
func Start(ctx context.Context) (*Browser, error) {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("hide-scrollbars", true), chromedp.WSURLReadTimeout(time.Minute))
	allocator, end := chromedp.NewExecAllocator(ctx, options...)
	browser, _ := chromedp.NewContext(allocator)
	b := &Browser{ctx: browser, end: end}
	if err := chromedp.Run(browser); err != nil {
		b.Close()
		return nil, fmt.Errorf("start Chromium: %w", err)
	}
	return b, nil
}

// Close ends the browser, waits for it, and removes its files.
func (b *Browser) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, tab := range b.tabs { // chromedp leaks what belongs to a tab that ends after the browser
		_ = chromedp.Cancel(tab)
	}
	_ = chromedp.Cancel(b.ctx)
	b.end()
}

// Options set how a page is displayed.
type Options struct {
	Width, Height int  // in pixels
	Phone         bool // emulate a phone
	Dark          bool
	NoScripts     bool
}

// Page is a tab. It must be used by one goroutine only.
type Page struct {
	tab context.Context

	mu       sync.Mutex
	problems []string
}

// NewPage opens a tab, which stays open until the browser ends.
func (b *Browser) NewPage(ctx context.Context, o Options) (*Page, error) {
	tab, _ := chromedp.NewContext(b.ctx)
	b.mu.Lock()
	b.tabs = append(b.tabs, tab)
	b.mu.Unlock()
	p := &Page{tab: tab}
	chromedp.ListenTarget(tab, p.event)
	if err := chromedp.Run(tab); err != nil { // a tab lives as long as the context of its first call
		return nil, fmt.Errorf("open a tab: %w", err)
	}
	scheme := "light"
	if o.Dark {
		scheme = "dark"
	}
	if err := p.run(ctx, log.Enable(), page.BringToFront(), // pages in the background do not update themselves
		emulation.SetDeviceMetricsOverride(int64(o.Width), int64(o.Height), 1, o.Phone),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
		emulation.SetScriptExecutionDisabled(o.NoScripts)); err != nil {
		return nil, fmt.Errorf("set up a tab: %w", err)
	}
	return p, nil
}

// run runs actions until the context ends, which is not one of chromedp.
func (p *Page) run(ctx context.Context, actions ...chromedp.Action) error {
	tab, cancel := context.WithCancelCause(p.tab)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	return chromedp.Run(tab, actions...)
}

// event records the errors in the console of the browser.
func (p *Page) event(event any) {
	switch event.(type) {
	case *runtime.EventExceptionThrown, *log.EventEntryAdded:
		text, _ := json.Marshal(event)
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.problems) < 100 {
			p.problems = append(p.problems, string(text))
		}
	}
}

// Problems returns the errors in the console of the browser: exceptions of scripts, content blocked by a policy, failed loads.
func (p *Page) Problems() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.problems...)
}

// Open opens a URL and waits until the page is loaded.
func (p *Page) Open(ctx context.Context, url string) error {
	if err := p.run(ctx, chromedp.Navigate(url)); err != nil {
		return fmt.Errorf("open %s: %w", url, err)
	}
	return nil
}

// Eval evaluates an expression in the page and stores its value in result; a promise is awaited. It works even where a policy forbids the
// page's own scripts.
func (p *Page) Eval(ctx context.Context, expression string, result any) error {
	return p.run(ctx, chromedp.Evaluate(expression, result, func(e *runtime.EvaluateParams) *runtime.EvaluateParams { return e.WithAwaitPromise(true) }))
}

// Until waits until an expression is true. It asks again and again, because what chromedp has for this compiles a text in the page, which a
// policy forbids.
func (p *Page) Until(ctx context.Context, expression string) error {
	for {
		var done bool
		err := p.Eval(ctx, "!!("+expression+")", &done)
		if err == nil && done {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w (%v)", expression, ctx.Err(), err)
		}
	}
}

// Type focuses a field, as a click does, and types a text.
func (p *Page) Type(ctx context.Context, selector, text string) error {
	if err := p.Click(ctx, selector); err != nil {
		return err
	}
	return p.run(ctx, input.InsertText(text))
}

// Click clicks the middle of an element with the mouse. It finds the element by an expression, because the selectors of chromedp run scripts,
// which a page without scripts refuses.
func (p *Page) Click(ctx context.Context, selector string) error {
	quoted, err := json.Marshal(selector)
	if err != nil {
		return err
	}
	var at *struct{ X, Y float64 }
	if err := p.Eval(ctx, "(() => { const e = document.querySelector("+string(quoted)+"); if (!e) return null; "+
		"e.scrollIntoView({block: 'center', behavior: 'instant'}); const r = e.getBoundingClientRect(); "+
		"return {X: r.left + r.width / 2, Y: r.top + r.height / 2}; })()", &at); err != nil {
		return err
	}
	if at == nil {
		return fmt.Errorf("click: no element %s", selector)
	}
	return p.run(ctx, chromedp.MouseClickXY(at.X, at.Y))
}

// ClickTo clicks an element that opens another page, and waits until that has loaded.
func (p *Page) ClickTo(ctx context.Context, selector string) error {
	loaded := make(chan struct{})
	var once sync.Once
	tab, cancel := context.WithCancel(p.tab)
	defer cancel()
	chromedp.ListenTarget(tab, func(event any) {
		if _, ok := event.(*page.EventLoadEventFired); ok {
			once.Do(func() { close(loaded) })
		}
	})
	if err := p.Click(ctx, selector); err != nil {
		return err
	}
	select {
	case <-loaded:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the page behind %s: %w", selector, ctx.Err())
	}
}

// Text returns the visible text of an element. It is empty if the element does not exist or is hidden.
func (p *Page) Text(ctx context.Context, selector string) (string, error) {
	quoted, err := json.Marshal(selector)
	if err != nil {
		return "", err
	}
	var text string
	err = p.Eval(ctx, "(e => e && e.checkVisibility() ? e.innerText : '')(document.querySelector("+string(quoted)+"))", &text)
	return strings.TrimSpace(text), err
}

// Screenshot returns a PNG of the whole page, cut at maxHeight pixels; 0 means no limit.
func (p *Page) Screenshot(ctx context.Context, maxHeight int) (png []byte, err error) {
	err = p.run(ctx, chromedp.ActionFunc(func(ctx context.Context) error {
		_, _, _, _, _, content, err := page.GetLayoutMetrics().Do(ctx)
		if err != nil {
			return err
		}
		if maxHeight > 0 {
			content.Height = min(content.Height, float64(maxHeight))
		}
		png, err = page.CaptureScreenshot().WithCaptureBeyondViewport(true).
			WithClip(&page.Viewport{Width: content.Width, Height: content.Height, Scale: 1}).Do(ctx)
		return err
	}))
	return png, err
}
