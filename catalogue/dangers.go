package catalogue

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/table"
)

// Danger is a rule for arguments that pass every check of a proxy and then end its process, block it, or exhaust its memory or
// a core, again after each restart. The compiler leaves such routes out, and a data plane removes them from fetched tables.
type Danger struct {
	Filters []string                // names of the filters
	Rule    string                  // what an argument must be: a clause
	mistake func(args []any) string // what is wrong with the arguments, or ""
}

// Limits of the rules. They are far above the values used in practice.
const (
	// maxHits is for groups, maxClientHits for each client: a proxy allocates 24 bytes for each hit.
	maxHits       = 10_000_000
	maxClientHits = 1_000_000
	// maxWindow is the longest window for which ten windows, the interval of the clean-up, do not overflow a duration.
	maxWindow = math.MaxInt64 / 10 * time.Nanosecond
	// minTick is the shortest interval of a ticker. At a microsecond it keeps 90 % of a core busy, at a millisecond 3 %.
	minTick = time.Millisecond
	// maxChunk is the largest size of a chunk: each request allocates a buffer of it.
	maxChunk = 64 << 20
	// maxTees is how often a route may be sent back into the routing: each copy meets the filter again, so the copies multiply.
	maxTees = 3
)

var dangers = []Danger{
	{[]string{"admissionControl"}, "argument 3 (interval) must be at least 1ms", admissionControl},
	{[]string{"compress"}, "argument 1 (level), if it is a number, must not be below zero", within(0, "level", 0, math.MaxInt64)},
	{[]string{"ratelimit"}, "argument 1 (requests) must be between 0 and 10000000", within(0, "number of requests", 0, maxHits)},
	{[]string{"clientRatelimit", "localRatelimit"}, "argument 1 (requests) must be between 0 and 1000000, " +
		"and argument 2 (window) at least 1ms and at most 29 years", clientLimit(0)},
	{[]string{"clusterRatelimit", "backendRatelimit"}, "argument 2 (requests) must be between 0 and 10000000",
		within(1, "number of requests", 0, maxHits)},
	{[]string{"clusterClientRatelimit"}, "argument 2 (requests) must be between 0 and 1000000, " +
		"and argument 3 (window) at least 1ms and at most 29 years", clientLimit(1)},
	{[]string{"chunks", "backendChunks"}, "argument 1 (bytes) must be at most 67108864",
		within(0, "number of bytes", math.MinInt64, maxChunk)},
	{[]string{"basicAuth"}, "argument 1 (file) must not be a folder, or within /dev, /proc or /sys", readable},
	{[]string{tee}, "a route may have it 3 times", func([]any) string { return "" }}, // see Survives
}

const tee = "teeLoopback"

// Dangers returns the rules, for documents. The caller must not change them.
func Dangers() []Danger { return dangers }

// Survives returns an error that names the filter if no proxy would survive the filters, for any backend.
func Survives(filters []*eskip.Filter) error {
	tees := 0
	for _, f := range filters {
		at := slices.IndexFunc(dangers, func(d Danger) bool { return slices.Contains(d.Filters, f.Name) })
		if at < 0 {
			continue
		}
		wrong := dangers[at].mistake(f.Args)
		if f.Name == tee {
			if tees++; tees > maxTees {
				wrong = fmt.Sprintf("it occurs %d times in one route, and copies of requests multiply", tees)
			}
		}
		if wrong != "" {
			return fmt.Errorf("filter %s: %s; %s", f, wrong, dangers[at].Rule)
		}
	}
	return nil
}

// within checks a number, without its fraction. A proxy refuses other types, or they have another meaning.
func within(at int, what string, least, most int64) func([]any) string {
	return func(args []any) string {
		if at >= len(args) {
			return ""
		}
		n, ok := Number(args[at])
		if ok && (math.Trunc(n) < float64(least) || math.Trunc(n) > float64(most)) {
			return fmt.Sprintf("the %s %v is out of bounds", what, args[at])
		}
		return ""
	}
}

// clientLimit checks the requests at a position, and the window that follows. Numbers are seconds there.
func clientLimit(at int) func([]any) string {
	hits, window := within(at, "number of requests", 0, maxClientHits), at+1
	return func(args []any) string {
		if wrong := hits(args); wrong != "" || window >= len(args) {
			return wrong
		}
		if n, ok := Number(args[window]); ok {
			if n = math.Trunc(n); n < 1 || n > maxWindow.Seconds() {
				return fmt.Sprintf("the window of %v seconds is out of bounds", args[window])
			}
			return ""
		}
		if d, err := time.ParseDuration(fmt.Sprint(args[window])); err == nil && (d < minTick || d > maxWindow) {
			return fmt.Sprintf("the window %q is out of bounds", args[window])
		}
		return ""
	}
}

var folders = strings.Fields("/ /bin /boot /etc /home /lib /lib64 /media /mnt /opt /root /run /sbin /srv /tmp /usr /var")

// readable checks the path of a file that a proxy reads to its end. The working directory of most containers is /.
func readable(args []any) string {
	if len(args) == 0 {
		return ""
	}
	text, ok := args[0].(string)
	if !ok || text == "" {
		return "" // a proxy refuses it
	}
	clean := path.Clean("/" + text)
	top, _, _ := strings.Cut(clean[1:], "/")
	switch base := text[strings.LastIndexByte(text, '/')+1:]; {
	case clean == "/dev/null":
		return ""
	case top == "dev", top == "proc", top == "sys":
		return fmt.Sprintf("the file %q may have no end", text)
	case base == "", base == ".", base == "..", slices.Contains(folders, clean):
		return fmt.Sprintf("%q is a folder", text)
	}
	return ""
}

// admissionControl starts a ticker with its third argument, which panics unless its duration is above zero.
func admissionControl(args []any) string {
	const position = 2
	if len(args) <= position {
		return ""
	}
	if n, ok := Number(args[position]); ok {
		// A proxy requires a text here and drops the route. A version that accepted numbers would truncate the fraction.
		if !(n >= 1) {
			return fmt.Sprintf("the interval %v is not above zero", args[position])
		}
		return ""
	}
	// A proxy drops a route with a text that is not a duration. Fractions of a nanosecond are truncated: "0.1ns" is zero.
	text := fmt.Sprint(args[position])
	switch d, err := time.ParseDuration(text); {
	case err != nil:
		return ""
	case d <= 0:
		return fmt.Sprintf("the interval %q is not above zero", text)
	case d < minTick:
		return fmt.Sprintf("the interval %q is too short", text)
	}
	return ""
}

// Killer is a route of a table that no proxy survives.
type Killer struct {
	ID  string
	Err error // names the filter and the mistake
}

// killers returns the routes that no proxy survives, sorted by id. It parses only routes with a hint.
func killers(checked, t *table.Table) (found []Killer) {
	var before table.List
	if checked != nil {
		before = checked.Routes()
	}
	for _, r := range table.Changes(before, t.Routes()) {
		if r == nil || !slices.ContainsFunc(hints, func(hint string) bool { return strings.Contains(r.Text, hint) }) {
			continue
		}
		if parsed, err := r.Parse(); err == nil { // otherwise no proxy loads it
			if err := Survives(parsed.Filters); err != nil {
				found = append(found, Killer{r.ID, err})
			}
		}
	}
	return found
}

// WithoutKillers returns t without the routes that no proxy survives, and these: one bad route must not block the others.
// checked is a table without such routes, or nil; routes that t shares with it are not checked again.
func WithoutKillers(checked, t *table.Table) (*table.Table, []Killer) {
	found := killers(checked, t)
	if len(found) == 0 {
		return t, nil
	}
	var ids []string
	for _, k := range found {
		ids = append(ids, k.ID)
	}
	rest, err := t.Routes().With(nil, ids)
	if err != nil {
		panic(err) // its errors are about new routes
	}
	return table.Of(rest, t.Revision(), t.Time()), found
}

// hints are parts of canonical text. Each route that breaks a rule contains at least one of them. They must not be changed.
var hints = []string{"admissionControl(", "compress(-", "atelimit(", "hunks(", "teeLoopback(", "basicAuth("}

var authenticating = []string{
	"basicAuth", "grantClaimsQuery", "jwtValidation", "mtlsAuthn", "oauth", "oidcClaimsQuery", "opaAuthorizeRequest", "secureOauth", "webhook",
}

// Authenticates reports whether the filter with a name refuses requests depending on their sender.
func Authenticates(filter string) bool {
	return slices.ContainsFunc(authenticating, func(prefix string) bool { return strings.HasPrefix(filter, prefix) })
}
