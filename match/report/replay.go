package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/match"
	"github.com/routesrv/routesrv/shadowdiff"
)

// ReplaySchema names the JSON form of a [Replayed]. Within one version fields are only added.
const ReplaySchema = "routesrv.replay/v1"

// Effect is what changes for a request.
type Effect string

// The effects, the worst first.
const (
	Lost      Effect = "lost"      // only the old table has a route for it
	Gained    Effect = "gained"    // no route got it before
	Route     Effect = "route"     // another route gets it, with other filters or another backend
	Undecided Effect = "undecided" // the choice is random, and between other routes than before
	Filters   Effect = "filters"   // the same route has other filters
	Backend   Effect = "backend"   // the same route has another backend
	Renamed   Effect = "renamed"   // a route with another id gets it, with the same filters and the same backend
)

func (k Effect) rank() int {
	return slices.Index([]Effect{Lost, Gained, Route, Undecided, Filters, Backend, Renamed}, k)
}

// Replayed is the result of a replay.
type Replayed struct {
	Schema string `json:"schema"`
	// Requests is how many requests were replayed. Same is how many of them are treated as before.
	Requests uint64 `json:"requests"`
	Same     uint64 `json:"same"`
	// Skipped is the number of lines that are not requests. FirstSkipped is the error of the first one.
	Skipped      uint64 `json:"skipped"`
	FirstSkipped string `json:"first_skipped,omitempty"`
	// Differences are sorted by number of requests, the most frequent first.
	Differences []Difference `json:"differences"`
	// Beyond is how many requests differ in ways that Differences does not list, because there are too many.
	Beyond uint64 `json:"beyond,omitempty"`
}

// Different is the number of requests that are treated differently than before.
func (r *Replayed) Different() uint64 { return r.Requests - r.Same }

// Difference is a change that some requests have in common.
type Difference struct {
	Kind     Effect `json:"kind"`
	Requests uint64 `json:"requests"`
	// Old and New are the ids of the routes: several if the choice is random, empty if no route gets the requests.
	Old []string `json:"old"`
	New []string `json:"new"`
	// Parts describe how the routes differ, if each side has one.
	Parts []string `json:"parts,omitempty"`
	// Examples are some of the requests, as METHOD URL.
	Examples []string `json:"examples"`
}

// Limits of a replay, for any input.
const (
	maxDifferences = 10_000
	maxExamples    = 3
	maxParts       = 20
)

// Replay matches recorded requests against two tables, and reports the requests that get another route, other filters or another
// backend. It shows how a new version, a cutover or a pull request affects real traffic, weighted by volume.
//
// A recorded request has only what was logged: a route that requires a header that was not logged does not match here. Both
// tables get the same request, so such a route is missed on both sides.
//
// A Replay is not safe for concurrent use.
type Replay struct {
	old, new *match.Table
	result   Replayed
	ignore   shadowdiff.Ignore
	known    map[string]*Difference // by kind and routes
	pairs    map[[2]*eskip.Route]*change
	beyond   Difference // all differences that are not listed
}

// change is how two routes differ for a request that got the first one and now gets the second one.
type change struct {
	kind  Effect // empty if they do not differ
	parts []string
}

// NewReplay returns a replay for the routes of two tables, which must not change, and proxies with the given settings.
// Differences between filters and backends that ignore selects do not count.
func NewReplay(before, after []*eskip.Route, proxy match.Options, ignore shadowdiff.Ignore) *Replay {
	proxy.Candidates = -1
	r := &Replay{
		ignore: ignore, known: map[string]*Difference{}, pairs: map[[2]*eskip.Route]*change{}, result: Replayed{Schema: ReplaySchema},
	}
	r.old, _ = match.New(before, proxy)
	r.new, _ = match.New(after, proxy)
	return r
}

// Add replays a request.
func (r *Replay) Add(in match.Request) {
	r.result.Requests++
	switch d := r.compare(in); d {
	case nil:
		r.result.Same++
	case &r.beyond:
		r.result.Beyond++
	default:
		if d.Requests++; len(d.Examples) < maxExamples {
			if text := in.Method + " " + urlOf(in); !slices.Contains(d.Examples, text) {
				d.Examples = append(d.Examples, text)
			}
		}
	}
}

func urlOf(in match.Request) string {
	if !strings.HasPrefix(in.Target, "/") {
		return in.Target
	}
	return "http://" + in.Host + in.Target
}

func (r *Replay) compare(in match.Request) *Difference {
	was, is := routesOf(r.old.Find(in)), routesOf(r.new.Find(in))
	v := change{kind: Undecided}
	switch {
	case len(was) == 0 && len(is) == 0:
		return nil
	case len(is) == 0:
		v.kind = Lost
	case len(was) == 0:
		v.kind = Gained
	case len(was) == len(is):
		v = *r.pair(was[0], is[0])
		for i := 1; i < len(was) && v.kind != Undecided; i++ { // chance decides as before if all routes are the same
			if v.kind != "" || r.pair(was[i], is[i]).kind != "" {
				v = change{kind: Undecided}
			}
		}
	}
	if v.kind == "" {
		return nil
	}
	old, now := idsOf(was), idsOf(is)
	key := fmt.Sprint(v.kind, old, now)
	d := r.known[key]
	if d == nil {
		if len(r.known) == maxDifferences {
			return &r.beyond
		}
		d = &Difference{Kind: v.kind, Old: old, New: now, Parts: v.parts}
		r.known[key] = d
	}
	return d
}

// routesOf returns the routes that may get a request, sorted by id; no route is left out if others may.
func routesOf(res match.Result) []*eskip.Route {
	var routes []*eskip.Route
	for _, o := range res.Outcomes {
		if o.Route != nil {
			routes = append(routes, o.Route)
		}
	}
	slices.SortFunc(routes, func(a, b *eskip.Route) int { return strings.Compare(a.Id, b.Id) })
	return routes
}

func idsOf(routes []*eskip.Route) []string {
	ids := make([]string, len(routes))
	for i, r := range routes {
		ids[i] = r.Id
	}
	return ids
}

// pair compares what two routes do with a request, whatever their conditions are. It compares each pair once.
func (r *Replay) pair(was, is *eskip.Route) *change {
	key := [2]*eskip.Route{was, is}
	if known := r.pairs[key]; known != nil {
		return known
	}
	plain := func(r *eskip.Route) *eskip.Route {
		c := *r
		c.Id, c.Path, c.Method, c.HostRegexps, c.PathRegexps, c.Headers, c.HeaderRegexps, c.Predicates = "r", "", "", nil, nil, nil, nil, nil
		return &c
	}
	v := &change{}
	r.pairs[key] = v
	report := shadowdiff.Diff([]*eskip.Route{plain(was)}, []*eskip.Route{plain(is)}).Without(shadowdiff.Ignore{Endpoints: r.ignore.Endpoints})
	for _, d := range report.Differences {
		for _, p := range d.Parts {
			if v.kind = cmp.Or(v.kind, Backend); p.Element == shadowdiff.Filter {
				v.kind = Filters
			}
			if len(v.parts) < maxParts {
				v.parts = append(v.parts, fmt.Sprintf("%s: %s -> %s", p.Label(), cmp.Or(p.Old, "nothing"), cmp.Or(p.New, "nothing")))
			}
		}
	}
	switch {
	case was.Id == is.Id:
	case v.kind == "":
		v.kind = Renamed
	default:
		v.kind = Route
	}
	return v
}

// Report returns what was found so far.
func (r *Replay) Report() Replayed {
	out := r.result
	out.Differences = []Difference{}
	for _, d := range r.known {
		out.Differences = append(out.Differences, *d)
	}
	slices.SortFunc(out.Differences, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Kind.rank(), b.Kind.rank()), slices.Compare(a.Old, b.Old), slices.Compare(a.New, b.New))
	})
	return out
}

const maxShown = 100

// WriteText prints the report for people, without control characters. It returns the writer's error.
func (r *Replayed) WriteText(w io.Writer) error {
	var b bytes.Buffer
	if n := r.Different(); n == 0 {
		fmt.Fprintf(&b, "same: %s\n", count(r.Requests, "request"))
	} else {
		fmt.Fprintf(&b, "different: %d of %s (%.4g %%), in %s\n", n, count(r.Requests, "request"), 100*float64(n)/float64(r.Requests),
			count(uint64(len(r.Differences)), "way"))
	}
	if r.Skipped > 0 {
		fmt.Fprintf(&b, "skipped: %s without a request: %s\n", count(r.Skipped, "line"), r.FirstSkipped)
	}
	for _, d := range r.Differences[:min(len(r.Differences), maxShown)] {
		fmt.Fprintf(&b, "\n%s: %s\n", count(d.Requests, "request"), d.what())
		for _, p := range d.Parts {
			fmt.Fprintf(&b, "    %s\n", p)
		}
		for _, e := range d.Examples {
			fmt.Fprintf(&b, "    such as %s\n", e)
		}
	}
	if n := len(r.Differences) - maxShown; n > 0 {
		fmt.Fprintf(&b, "\nand %d more; -o json lists them\n", n)
	}
	if r.Beyond > 0 {
		fmt.Fprintf(&b, "\n%d requests differ in ways that are not listed\n", r.Beyond)
	}
	_, err := io.WriteString(w, shadowdiff.PrintableLines(b.String()))
	return err
}

func count(n uint64, noun string) string { return shadowdiff.Plural(int(n), noun) }

func (d *Difference) what() string {
	old, now := strings.Join(d.Old, " or "), strings.Join(d.New, " or ")
	switch d.Kind {
	case Lost:
		return "no route, before " + old
	case Gained:
		return "no route before, now " + now
	case Route:
		return "another route: " + old + " -> " + now
	case Undecided:
		return "another random choice: " + old + " -> " + now
	case Renamed:
		return "another id, the same filters and backend: " + old + " -> " + now
	}
	return fmt.Sprintf("other %s: %s", d.Kind, old)
}

// WriteJSON prints the report for programs. It returns the writer's error.
func (r *Replayed) WriteJSON(w io.Writer) error { return shadowdiff.WriteJSONValue(w, r, "  ") }
