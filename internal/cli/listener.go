package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/internal/api"
)

// maxAnswer limits the answer of a route server, in bytes. The largest is /clients: 20,000 clients take about 15 MB.
const maxAnswer = 64 << 20

// page is an answer of a listener.
type page struct {
	status int
	text   string // of the status line
	body   []byte
}

// do sends one request, with a body unless it is nil. It does not follow redirects.
func (l *Listener) do(ctx context.Context, method, path string, query url.Values, accept string, body io.Reader) (*page, error) {
	u := l.URL + path
	if len(query) > 0 {
		u += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, u, body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("User-Agent", api.AgentTool)
	client := http.Client{Transport: l.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // the caller names the replica
		}
		// net/http may put the name of one of its functions before the error of a connection that ended without an answer.
		if inner := errors.Unwrap(err); inner != nil && strings.HasPrefix(err.Error(), "readLoopPeekFailLocked: ") {
			err = inner
		}
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", path, err)
	}
	if len(answer) > maxAnswer {
		return nil, fmt.Errorf("the answer of %s has more than %d bytes", path, maxAnswer)
	}
	return &page{resp.StatusCode, resp.Status, answer}, nil
}

// get requests JSON. Any status that is not listed is an error.
func (l *Listener) get(ctx context.Context, path string, query url.Values, dst any, also ...int) (*page, error) {
	p, err := l.getAs(ctx, path, query, "application/json", also...)
	if err != nil {
		return nil, err
	}
	if dst == nil || p.status != http.StatusOK && !json.Valid(p.body) {
		return p, nil
	}
	if err := json.Unmarshal(p.body, dst); err != nil {
		return nil, fmt.Errorf("%s: the answer is not what a route server says: %w", path, err)
	}
	return p, nil
}

// getAs requests a media type. Any status that is not listed is an error.
func (l *Listener) getAs(ctx context.Context, path string, query url.Values, accept string, also ...int) (*page, error) {
	p, err := l.do(ctx, http.MethodGet, path, query, accept, nil)
	if err == nil && p.status != http.StatusOK && !slices.Contains(also, p.status) {
		return nil, p.refusal(path)
	}
	return p, err
}

// refusal converts a negative answer to an error.
func (p *page) refusal(path string) error {
	var said struct{ Error string }
	text := strings.TrimSpace(string(p.body))
	if json.Unmarshal(p.body, &said) == nil && said.Error != "" {
		text = said.Error
	}
	text = firstLine(text)
	if p.status == http.StatusNotFound && !strings.Contains(text, "no ") {
		return fmt.Errorf("%s: %s: is this the support listener of a route server?", path, p.text)
	}
	return fmt.Errorf("%s: %s: %s", path, p.text, text)
}

// line returns the first line of an unexpected answer.
func (p *page) line() string { return firstLine(string(p.body)) }

// firstLine returns the part of a text that an error shows.
func firstLine(text string) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	if r := []rune(text); len(r) > 200 {
		text = string(r[:200]) + "…"
	}
	return text
}
