package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/routesrv/routesrv/explain"
	"github.com/routesrv/routesrv/internal/setup"
)

// maxAnswer bounds what a route server may answer.
const maxAnswer = 16 << 20

// fromServer asks the support listener of a route server.
func (o *explainOptions) fromServer(ctx context.Context, _ setup.Stdio) (*explain.Explanation, error) {
	u, err := url.Parse(o.place)
	if err != nil {
		return nil, err
	}
	if u.Path = strings.TrimSuffix(u.Path, "/"); !strings.HasSuffix(u.Path, "/explain") {
		u.Path += "/explain"
	}
	q := u.Query()
	for name, val := range map[string]string{
		"kind": string(o.query.Kind), "namespace": o.query.Namespace, "name": o.query.Name, "route": o.query.Route, "host": o.query.Host,
	} {
		if val != "" {
			q.Set(name, val)
		}
	}
	u.RawQuery = q.Encode()
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", u.Redacted(), err)
	}
	e := &explain.Explanation{}
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusNotFound || json.Unmarshal(body, e) != nil || e.Schema == "" {
		hint := ""
		if resp.StatusCode == http.StatusNotFound {
			hint = ": this is for the support listener of a route server that reads a cluster"
		}
		line, _, _ := strings.Cut(strings.TrimSpace(string(body)), "\n")
		if len(line) > 200 {
			line = line[:200]
		}
		return nil, fmt.Errorf("%s: %s %q%s", u.Redacted(), resp.Status, line, hint)
	}
	if e.Schema != explain.Schema {
		return nil, errors.New("the route server explains by the schema " + e.Schema + ", and this program knows " + explain.Schema)
	}
	return e, nil
}
