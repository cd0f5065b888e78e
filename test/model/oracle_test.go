package model_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/routesrv/routesrv/eskip"
)

// The limits of the model. The oracle uses the values from the documentation of package guard.
const (
	modelHold   = 40 * time.Second
	modelWindow = 2 * time.Minute
	sampling    = time.Second // between two samples of what is served
)

// seen is a table as a client reads it.
type seen struct {
	digest   string
	revision uint64
	routes   map[string]seenRoute // by id
	asked    int                  // routes that are not generated
}

// seenRoute is a route as a client reads it.
type seenRoute struct {
	shop    int    // index of the Ingress; -1 for a generated route
	version int    // of the Ingress
	address string // address of the pod; empty for a service without endpoints
}

var shopID = regexp.MustCompile(`__s(\d\d)__`)

// readTable parses a served table.
func readTable(text string) (map[string]seenRoute, error) {
	routes, err := eskip.Parse(text)
	if err != nil {
		return nil, err
	}
	all := make(map[string]seenRoute, len(routes))
	for _, r := range routes {
		m := shopID.FindStringSubmatch(r.Id)
		if m == nil {
			all[r.Id] = seenRoute{shop: -1}
			continue
		}
		route := seenRoute{}
		route.shop, _ = strconv.Atoi(m[1])
		for _, p := range r.Predicates {
			if p.Name == "QueryParam" {
				route.version, _ = strconv.Atoi(p.Args[1].(string))
			}
		}
		if r.BackendType == eskip.NetworkBackend {
			route.address = strings.TrimSuffix(strings.TrimPrefix(r.Backend, "http://"), ":8080")
		}
		all[r.Id] = route
	}
	return all, nil
}

// presence is the period in which a client of one level had something: its start, ignoring gaps that do not count, and its end.
type presence struct{ since, last time.Time }

// watchman watches what one level serves, and knows the rules of the guard from its documentation only. It reports a table that
// breaks a limit beyond doubt; near the edges of the window it is generous.
type watchman struct {
	maxLoss   float64
	manual    bool
	maxRoutes int

	now     *seen
	routes  map[string]presence
	backing map[string]presence // routes with an address
	differs time.Time           // since when every read showed another table than the served one; zero if the last read did not
}

// restart makes the table the only one that later tables are compared with; nil means the next served table.
func (w *watchman) restart(s *seen) {
	w.now, w.routes, w.backing = s, make(map[string]presence), make(map[string]presence)
	if s != nil {
		w.note(s, time.Time{}, time.Now())
	}
}

// note records the contents of a table.
func (w *watchman) note(s *seen, first, now time.Time) {
	for id, r := range s.routes {
		touch(w.routes, id, first, now)
		if r.address != "" {
			touch(w.backing, id, first, now)
		}
	}
	for id := range w.backing {
		if _, there := s.routes[id]; !there {
			delete(w.backing, id) // a removed route has not lost its endpoints
		}
	}
}

func touch(all map[string]presence, name string, first, now time.Time) {
	p, known := all[name]
	if !known || now.Sub(p.last) > modelWindow*3/4 {
		p.since = first
	}
	p.last = now
	all[name] = p
}

// shows is called for each read, or for the table of the level above. same reports whether that table is the served one.
func (w *watchman) shows(same bool) {
	switch {
	case same:
		w.differs = time.Time{}
	case w.differs.IsZero():
		w.differs = time.Now()
	}
}

// sees is called with the table that is served now, and whether an acceptance was recorded for it. It returns what is wrong, or
// whether the table breaks a limit and was rightly released.
func (w *watchman) sees(s *seen, accepted bool) (released bool, wrong string) {
	now := time.Now()
	if w.now == nil {
		w.restart(s)
		if s.asked == 0 && len(s.routes) == 0 && !accepted {
			return false, "an empty table is served"
		}
		return false, ""
	}
	if w.now.digest == s.digest {
		w.note(s, now, now)
		return false, ""
	}
	why, never := w.breaks(s, now)
	switch waited := now.Sub(w.differs); {
	case why == "":
		w.now = s
		w.note(s, now, now)
		return false, ""
	case accepted:
	case never || w.manual:
		return false, why + ", which no time releases"
	case w.differs.IsZero() || waited < modelHold-2*sampling:
		return false, fmt.Sprintf("%s, which no read has agreed with for long enough", why)
	}
	w.restart(s)
	return true, why
}

// breaks returns the limit that the table breaks compared with what was served within the window, and whether time never releases
// it.
func (w *watchman) breaks(s *seen, now time.Time) (why string, never bool) {
	switch {
	case len(s.routes) == 0:
		return "an empty table is served", true
	case s.asked == 0 && w.now.asked > 0:
		return "only generated routes are served", true
	}
	gone := func(id string) bool { _, there := s.routes[id]; return !there }
	if n, all, now := missing(w.routes, w.now.routes, gone, now); w.maxLoss < 1 && now && float64(n) > w.maxLoss*float64(all) {
		return fmt.Sprintf("%d of %d routes are lost", n, all), false
	}
	empty := func(id string) bool { return !gone(id) && s.routes[id].address == "" }
	had := make(map[string]seenRoute)
	for id, r := range w.now.routes {
		if r.address != "" {
			had[id] = r
		}
	}
	if n, all, now := missing(w.backing, had, empty, now); now && n >= 20 && 2*n > all {
		return fmt.Sprintf("%d of %d routes lost their endpoints", n, all), false
	}
	if n := len(w.now.routes); w.maxRoutes > 0 && len(s.routes) > w.maxRoutes && n <= w.maxRoutes && n > 0 {
		return fmt.Sprintf("%d routes are served", len(s.routes)), false
	}
	return "", false
}

// missing counts what was served before the window began, what was served within it, and how much of the former the table lacks;
// now reports that some of it is served at this moment.
func missing[V any](all map[string]presence, served map[string]V, lost func(string) bool, at time.Time) (n, of int, now bool) {
	for id, p := range all {
		if at.Sub(p.last) >= modelWindow-2*sampling {
			continue
		}
		of++
		if at.Sub(p.since) > modelWindow*17/16+2*sampling && lost(id) {
			n++
			if _, is := served[id]; is {
				now = true
			}
		}
	}
	return n, of, now
}
