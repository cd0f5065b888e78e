package rules

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/catalogue"
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/table"
)

// maxSharers limits what one object can make of an edit rule that applies to its own result.
const maxSharers = 16

// finish applies the options to a route, prints it, parses it back, and appends it to dst, which are routes of the unit. It
// neither changes nor keeps the route.
//
// sharers is how many routes have the filters of the route in one list in the reference, whose edit rules change the list in
// place, once for each of them.
func (u *Unit) finish(dst *[]Route, r *eskip.Route, role role, sharers int) {
	if d := u.set.DefaultFilters; d != nil {
		r = d.Do([]*eskip.Route{r})[0]
		if len(d.Prepend)+len(d.Append) > 0 {
			sharers = 1 // each has its own list now
		}
	}
	u.edit(dst, r, role, sharers)
}

func (u *Unit) edit(dst *[]Route, before *eskip.Route, role role, sharers int) {
	r := before
	var clones []*eskip.Route
	if len(u.set.EditRoutes)+len(u.set.CloneRoutes) > 0 {
		r, clones = u.process(before, sharers)
	}
	made := Route{ID: HashID(before.Id), text: leftOut}
	if role == mainRoute {
		made.Match = matchOf(r)
	}
	if text, ok := u.print(r); ok {
		made.text = u.addText(text)
	}
	if made.text == leftOut || r != before || len(clones) > 0 {
		made.more = &more{id: before.Id, before: before.String(), clones: u.printClones(clones)}
	}
	*dst = append(*dst, made)
}

func (u *Unit) process(r *eskip.Route, sharers int) (edited *eskip.Route, clones []*eskip.Route) {
	routes := []*eskip.Route{r}
	var failed []error
	for _, e := range u.set.EditRoutes {
		var errs []error
		routes, errs = e.DoWithErrors(routes)
		failed = append(failed, errs...)
		for range min(sharers, maxSharers) - 1 {
			if routes[0] = editFilters(e, routes[0]); len(routes[0].String()) > table.MaxRoute {
				panic(oversized{fmt.Sprintf("a route with more than %s", mebibytes(table.MaxRoute))})
			}
		}
	}
	for _, c := range u.set.CloneRoutes {
		var errs []error
		routes, errs = c.DoWithErrors(routes)
		failed = append(failed, errs...)
	}
	for _, err := range failed {
		u.add(Problem{Route: r.Id, Reason: ProcessingFailed, Severity: Error, Plain: true, Message: "Failed to " + err.Error()})
	}
	return routes[0], routes[1:]
}

func editFilters(e *eskip.Editor, r *eskip.Route) *eskip.Route {
	alone := &eskip.Route{Filters: r.Filters}
	edited, _ := e.DoWithErrors([]*eskip.Route{alone})
	if edited[0] == alone {
		return r
	}
	c := *r
	c.Filters = edited[0].Filters
	return &c
}

// print returns the printed form of a route, unless it would harm the readers of the table.
func (u *Unit) print(r *eskip.Route) (*table.Route, bool) {
	printed := table.NewRoute(r)
	if err := printed.Check(); errors.Is(err, table.ErrTooLarge) {
		panic(oversized{fmt.Sprintf("a route with more than %s", mebibytes(table.MaxRoute))})
	} else if err != nil {
		return nil, u.unreadable(r, err)
	}
	u.route(len(printed.Text) + 1)
	reader, ok := u.set.readers.Get().(*eskip.Reader)
	if !ok {
		reader = new(eskip.Reader)
	}
	defer u.set.readers.Put(reader)
	back, err := parseBack(reader, r, printed.Text)
	if err != nil {
		return nil, u.unreadable(r, err)
	}
	if err := catalogue.Survives(r.Filters); err != nil {
		u.addf(Problem{Route: r.Id, Reason: WouldCrashProxy, Severity: Error},
			"route %s left out, no proxy that gets it would survive: %v", r.Id, err)
		return nil, false
	}
	if !u.checkAllowed(r) {
		return nil, false
	}
	u.checkRefused(r)
	u.checkPaths(back)
	reread, ok := printed.Reread(back)
	if !ok {
		return nil, u.unreadable(r, errors.New("readers of the table would write it in another way"))
	}
	if printed.Hosts != reread.Hosts { // with control characters, which readers have as escapes
		printed.Hosts = strings.Clone(reread.Hosts)
	}
	return &printed, true
}

func (u *Unit) unreadable(r *eskip.Route, err error) bool {
	u.addf(Problem{Route: r.Id, Reason: NotParsable, Severity: Error},
		"route %s left out, it would make the whole table unreadable: %v", r.Id, err)
	return false
}

// printClones prints the results of the clone rules. Of clones with the same id the last one counts, as for a proxy.
func (u *Unit) printClones(routes []*eskip.Route) []int32 {
	var clones []int32
	for _, r := range routes {
		clones = slices.DeleteFunc(clones, func(text int32) bool { return u.printing[text].ID == r.Id })
		if printed, ok := u.print(r); ok {
			clones = append(clones, u.addText(printed))
		}
	}
	return clones
}

// parseBack ensures that the text of a route, parsed on its own, means the same as the route. The result belongs to the reader.
func parseBack(reader *eskip.Reader, r *eskip.Route, text string) (*eskip.Route, error) {
	back, err := reader.Parse(text)
	if err != nil {
		return nil, err
	}
	if len(back) != 1 || !eskip.Equivalent(back[0], r) {
		return nil, fmt.Errorf("it reads as a different route: %s", eskip.String(back...))
	}
	return back[0], nil
}

// checkRefused reports a route that proxies refuse, once for each kind of mistake in an object. It is published as in the
// reference, and only the log of each proxy shows that it is dropped.
func (u *Unit) checkRefused(r *eskip.Route) {
	refused, err := u.set.proxies.Check(r)
	if err == nil {
		return
	}
	what := err.Error()
	if strings.HasPrefix(what, "predicate Host:") && slices.ContainsFunc(u.list, func(p Problem) bool { return strings.HasPrefix(p.About, aboutWildcard) }) {
		return
	}
	reason, detail := WouldReject, ""
	switch refused {
	case catalogue.UnknownFilter:
		detail = "proxies know no filter " + nameIn(what) + meant(u.set.proxies.Similar(nameIn(what), false))
	case catalogue.UnknownPredicate:
		detail = "proxies know no predicate " + nameIn(what) + meant(u.set.proxies.Similar(nameIn(what), true))
	case catalogue.InvalidFilterParams:
		detail = "proxies do not accept the filter " + what
	case catalogue.InvalidPredicateParams:
		detail = "proxies do not accept the predicate " + what
	case catalogue.InvalidMatcher:
		reason, detail = InvalidExpression, "proxies cannot match a host, a path or a header: "+what
	default:
		detail = "proxies do not accept a route: " + what
	}
	u.ownf(Problem{Route: r.Id, Reason: reason, Severity: Warning, About: string(refused) + " " + what}, "%s, so they ignore the routes that have it", detail)
}

// checkAllowed reports refused filters, and those that work while a proxy loads its routes, unless operators add them.
func (u *Unit) checkAllowed(r *eskip.Route) bool {
	for _, filter := range r.Filters {
		name := filter.Name
		if slices.Contains(u.set.RefuseFilters, name) {
			u.ownf(Problem{Route: r.Id, Reason: FilterRefused, Severity: Error},
				"the operators of this ingress do not allow the filter %s, so the route %s is left out", name, r.Id)
			return false
		}
		does := u.set.proxies.AtLoad(name)
		if does == "" || slices.Contains(u.set.ownFilters, name) {
			continue
		}
		u.ownf(Problem{Route: r.Id, Reason: RunsAtLoad, Severity: Warning, About: name},
			"the filter %s %s each time a proxy loads its routes, and a proxy that waits for it serves old routes", name, does)
	}
	return true
}

// insideSegment matches a path with a colon or an asterisk behind the first character of a segment.
var insideSegment = regexp.MustCompile(`(^|/)[^/:*][^/]*[:*]`)

// checkPaths reports a path that proxies accept and never match, of a route that was read back.
func (u *Unit) checkPaths(r *eskip.Route) {
	check := func(path string) {
		if strings.ContainsAny(path, ":*") && insideSegment.MatchString(path) {
			u.ownf(Problem{Reason: InvalidExpression, Severity: Warning, About: path},
				"the path %q has a colon or an asterisk inside of a segment, so it matches no request", path)
		}
	}
	check(r.Path)
	for _, p := range r.Predicates {
		if isPathPredicate(p) && len(p.Args) > 0 {
			path, _ := p.Args[0].(string)
			check(path)
		}
	}
}

func nameIn(text string) string {
	_, text, _ = strings.Cut(text, `"`)
	name, _, _ := strings.Cut(text, `"`)
	return name
}

func meant(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return " (is " + strings.Join(names, " or ") + " meant?)"
}
