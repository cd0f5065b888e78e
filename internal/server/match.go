package server

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/internal/console"
	"github.com/routesrv/routesrv/match"
	"github.com/routesrv/routesrv/match/report"
	"github.com/routesrv/routesrv/table"
)

// maxMatchHeaders limits the headers of a request to match.
const maxMatchHeaders = 64

// serveMatch finds the route of a request in the served table. It caches nothing between two requests: even in a large table it
// parses only the routes that requests for one host can reach.
func (s *Server) serveMatch(w http.ResponseWriter, r *http.Request) {
	v, err := s.match(r.URL.Query())
	switch {
	case errors.Is(err, console.ErrNoTable):
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	status := http.StatusOK
	if !v.Matched() && len(v.Result.Outcomes) <= 1 && v.Result.Answer == nil {
		status = http.StatusNotFound
	}
	writeAnswer(w, r, status, func(b *bytes.Buffer) error { return v.WriteJSON(b) }, func(b *bytes.Buffer) error { return v.WriteText(b) })
}

// match answers one question. The error is [console.ErrNoTable], or says which parameter is wrong.
func (s *Server) match(q url.Values) (*report.View, error) {
	t := s.cache.Current()
	if t == nil {
		return nil, console.ErrNoTable
	}
	options, err := matchOptions(q, s.proxyOptions())
	if err != nil {
		return nil, err
	}
	request, err := matchRequest(q)
	if err != nil {
		return nil, err
	}
	routes, refusals := match.New(routesOf(t.Routes(), request.Host), options)
	return &report.View{
		Request: request, URL: q.Get("url"), Table: "served", Routes: t.Len(), Refusals: refusals, Result: routes.Find(request),
		Owner: s.owners(),
	}, nil
}

// routesOf parses the routes that requests for a host can reach. It skips routes that do not parse: the compiler parsed every
// route back, so a table has none.
func routesOf(list table.List, host string) []*eskip.Route {
	var routes []*eskip.Route
	for r := range list.OfHosts(match.ForHosts(host)) {
		if parsed, err := eskip.Parse(r.Text); err == nil {
			routes = append(routes, parsed...)
		}
	}
	return routes
}

// matchRequest reads the request to match from the parameters.
func matchRequest(q url.Values) (match.Request, error) {
	r := match.Request{Method: q.Get("method"), RemoteAddr: q.Get("from"), Time: time.Now().UTC(), Slack: report.ClockSlack}
	if strings.ContainsAny(r.Method, " \t\r\n") {
		return r, fmt.Errorf("method=%q: want a method such as POST", r.Method)
	}
	if r.RemoteAddr != "" {
		if _, err := netip.ParseAddr(r.RemoteAddr); err != nil {
			return r, fmt.Errorf("from=%q: want the IP address from which the connection comes", r.RemoteAddr)
		}
	}
	if at := q.Get("at"); at != "" {
		t, err := time.Parse(time.RFC3339, at)
		if err != nil {
			return r, fmt.Errorf("at=%q: want a time as in 2026-12-24T18:00:00+01:00", at)
		}
		r.Time, r.Slack = t, 0
	}
	if len(q["header"]) > maxMatchHeaders {
		return r, fmt.Errorf("%d headers: want at most %d", len(q["header"]), maxMatchHeaders)
	}
	for _, h := range q["header"] {
		if err := report.AddHeader(&r, h); err != nil {
			return r, fmt.Errorf("header=%w", err)
		}
	}
	if !q.Has("url") {
		return r, errors.New("want url=, the URL of a request, such as https://shop.example.org/cart")
	}
	if err := report.SetURL(&r, q.Get("url")); err != nil {
		return r, fmt.Errorf("url=%w", err)
	}
	return r, nil
}

// matchOptions reads the settings of the proxies from the parameters.
func matchOptions(q url.Values, o match.Options) (match.Options, error) {
	for name, dst := range map[string]*bool{
		"normalize-host": &o.NormalizeHost, "ignore-trailing-slash": &o.IgnoreTrailingSlash, "rfc-patch-path": &o.RFCPatchPath,
		"validate-query": &o.ValidateQuery,
	} {
		if !q.Has(name) {
			continue
		}
		var err error
		if *dst, err = strconv.ParseBool(q.Get(name)); err != nil {
			return o, fmt.Errorf("%s=%q: want true or false", name, q.Get(name))
		}
	}
	return o, nil
}

// proxyOptions returns what the flags of the server say about the proxies.
func (s *Server) proxyOptions() match.Options {
	o := s.cfg.Compile
	return match.Options{
		ValidateQuery: true, ForwardBackendURL: o.ForwardBackendURL, ExtraFilters: o.ExtraFilters, ExtraPredicates: o.ExtraPredicates,
		Zone: time.LoadLocation,
	}
}
