package browser

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// Page is a tab. It must be used by one goroutine only.
type Page struct {
	browser *Browser
	session string

	mu       sync.Mutex
	complete chan struct{} // closed when the page being opened has loaded
	problems []string
}

// Options set how a page is displayed.
type Options struct {
	Width, Height int  // in pixels
	Phone         bool // emulate a phone
	Dark          bool
	NoScripts     bool
}

// NewPage opens a tab.
func (b *Browser) NewPage(ctx context.Context, o Options) (*Page, error) {
	var target struct {
		TargetID string `json:"targetId"`
	}
	if err := b.call(ctx, "", "Target.createTarget", map[string]any{"url": "about:blank"}, &target); err != nil {
		return nil, err
	}
	var attached struct {
		SessionID string `json:"sessionId"`
	}
	if err := b.call(ctx, "", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached); err != nil {
		return nil, err
	}
	p := &Page{browser: b, session: attached.SessionID}
	b.mu.Lock()
	b.pages[p.session] = p
	b.mu.Unlock()
	scheme := "light"
	if o.Dark {
		scheme = "dark"
	}
	for _, c := range []struct {
		method string
		params any
	}{
		{"Page.enable", nil}, {"Runtime.enable", nil}, {"Log.enable", nil},
		{"Emulation.setDeviceMetricsOverride", map[string]any{"width": o.Width, "height": o.Height, "deviceScaleFactor": 1, "mobile": o.Phone}},
		{"Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}},
		{"Emulation.setScriptExecutionDisabled", map[string]any{"value": o.NoScripts}},
	} {
		if err := p.browser.call(ctx, p.session, c.method, c.params, nil); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// event handles an event of the page.
func (p *Page) event(m message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch m.Method {
	case "Page.loadEventFired":
		if p.complete != nil {
			close(p.complete)
			p.complete = nil
		}
	case "Runtime.exceptionThrown", "Log.entryAdded":
		if len(p.problems) < 100 {
			p.problems = append(p.problems, string(m.Params))
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
	return p.loads(ctx, func() error {
		var answer struct {
			ErrorText string `json:"errorText"`
		}
		if err := p.browser.call(ctx, p.session, "Page.navigate", map[string]any{"url": url}, &answer); err != nil {
			return err
		}
		if answer.ErrorText != "" {
			return fmt.Errorf("open %s: %s", url, answer.ErrorText)
		}
		return nil
	})
}

// loads calls do, which opens another page, and waits until that has loaded.
func (p *Page) loads(ctx context.Context, do func() error) error {
	complete := make(chan struct{})
	p.mu.Lock()
	p.complete = complete
	p.mu.Unlock()
	if err := do(); err != nil {
		return err
	}
	select {
	case <-complete:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for a page: %w", ctx.Err())
	}
}

// Eval evaluates an expression in the page and stores its value in result. It works even where a policy forbids the page's own
// scripts.
func (p *Page) Eval(ctx context.Context, expression string, result any) error {
	var answer struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		ExceptionDetails *struct {
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
			Text string `json:"text"`
		} `json:"exceptionDetails"`
	}
	err := p.browser.call(ctx, p.session, "Runtime.evaluate", map[string]any{
		"expression": expression, "returnByValue": true, "awaitPromise": true,
	}, &answer)
	switch {
	case err != nil:
		return err
	case answer.ExceptionDetails != nil:
		return errors.New(answer.ExceptionDetails.Text + ": " + answer.ExceptionDetails.Exception.Description)
	case result == nil || len(answer.Result.Value) == 0:
		return nil
	}
	return json.Unmarshal(answer.Result.Value, result)
}

// Until waits until an expression is true.
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
	return p.browser.call(ctx, p.session, "Input.insertText", map[string]any{"text": text}, nil)
}

// Click clicks the middle of an element with the mouse.
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
	for _, kind := range []string{"mousePressed", "mouseReleased"} {
		if err := p.browser.call(ctx, p.session, "Input.dispatchMouseEvent", map[string]any{
			"type": kind, "x": at.X, "y": at.Y, "button": "left", "clickCount": 1,
		}, nil); err != nil {
			return err
		}
	}
	return nil
}

// ClickTo clicks an element that opens another page, and waits until that has loaded.
func (p *Page) ClickTo(ctx context.Context, selector string) error {
	return p.loads(ctx, func() error { return p.Click(ctx, selector) })
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
func (p *Page) Screenshot(ctx context.Context, maxHeight int) ([]byte, error) {
	var size struct {
		CSSContentSize struct {
			Width, Height float64
		} `json:"cssContentSize"`
	}
	if err := p.browser.call(ctx, p.session, "Page.getLayoutMetrics", nil, &size); err != nil {
		return nil, err
	}
	height := size.CSSContentSize.Height
	if maxHeight > 0 {
		height = min(height, float64(maxHeight))
	}
	var shot struct {
		Data string `json:"data"`
	}
	err := p.browser.call(ctx, p.session, "Page.captureScreenshot", map[string]any{
		"format": "png", "captureBeyondViewport": true,
		"clip": map[string]any{"x": 0, "y": 0, "width": size.CSSContentSize.Width, "height": height, "scale": 1},
	}, &shot)
	if err != nil {
		return nil, err
	}
	return base64.StdEncoding.DecodeString(shot.Data)
}
