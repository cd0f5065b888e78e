package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/routesrv/routesrv/explain"
	"github.com/routesrv/routesrv/internal/cli"
	"github.com/routesrv/routesrv/internal/config"
)

// fromServer asks the support listener of a route server.
func (o *explainOptions) fromServer(ctx context.Context, _ config.Stdio) (*explain.Explanation, error) {
	u, err := url.Parse(o.place)
	if err != nil {
		return nil, err
	}
	transport, err := o.tls.Transport()
	if err != nil {
		return nil, err
	}
	defer transport.CloseIdleConnections()
	u.Path = strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/explain")
	u.RawQuery, u.Fragment = "", ""
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	server := cli.Listener{URL: strings.TrimSuffix(u.String(), "/"), Transport: transport}
	e, err := server.Explain(ctx, o.query)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", u.Redacted(), err)
	}
	return e, nil
}
