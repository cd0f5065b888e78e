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

// maxMatchHeaders bounds the headers of a request that is asked about.
const maxMatchHeaders = 64

// serveMatch finds the route of a request in the table that is served. Nothing is kept between two questions: of a large table only
// the routes that requests for one host can reach are parsed.
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

// match answers a question. The error is [console.ErrNoTable], or says which parameter is wrong.
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
	}, nil
}

// routesOf parses the routes that requests for a host may reach. What does not parse is not in the table: it was read back.
func routesOf(list table.List, host string) []*eskip.Route {
	narrow := match.NewNarrow(host)
	var routes []*eskip.Route
	for r := range list.All() {
		if narrow.May(r.Hosts) {
			if parsed, err := eskip.Parse(r.Text); err == nil {
				routes = append(routes, parsed...)
			}
		}
	}
	return routes
}

// matchRequest reads the request that is asked about.
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

// matchOptions reads the settings of the proxies.
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

// proxyOptions are what is known of the proxies by the flags of the server.
func (s *Server) proxyOptions() match.Options {
	o := s.cfg.Compile
	return match.Options{
		ValidateQuery: true, ForwardBackendURL: o.ForwardBackendURL, ExtraFilters: o.ExtraFilters, ExtraPredicates: o.ExtraPredicates,
		Zone: time.LoadLocation,
	}
}
