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
	Filters []string // names of the filters
	Rule    string   // what an argument must be: a clause
	Effect  string   // what happens otherwise, in which proxies
	// Seen means that the effect was observed. Otherwise it follows from the use of the argument, and only useless values are
	// refused.
	Seen bool

	// mistake returns what is wrong with the arguments, or "". count is the number of filters with this name in the route so far.
	mistake func(args []any, count int) string
}

// Limits of the rules. They are far above the values used in practice.
const (
	// maxHits is the largest rate limit of a group, and maxClientHits that of each client: a proxy allocates 24 bytes for each
	// hit with the first request.
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
	{
		Filters: []string{"admissionControl"}, Seen: true,
		Rule:    "argument 3 (interval) must be at least 1ms",
		Effect:  "zero or less ends the process as soon as the route is applied; far below a millisecond keeps a core busy",
		mistake: func(args []any, _ int) string { return admissionControl(args) },
	},
	{
		Filters: []string{"compress"}, Seen: true,
		Rule:    "argument 1 (level), if it is a number, must not be below zero",
		Effect:  "the first client that accepts br ends the process",
		mistake: func(args []any, _ int) string { return within(args, 0, "level", 0, math.MaxInt64) },
	},
	{
		Filters: []string{"ratelimit"}, Seen: true,
		Rule:    "argument 1 (requests) must be between 0 and 10000000",
		Effect:  "with -enable-ratelimits, the first request takes 24 bytes for each; below zero, requests hang",
		mistake: func(args []any, _ int) string { return within(args, 0, "number of requests", 0, maxHits) },
	},
	{
		Filters: []string{"clientRatelimit", "localRatelimit"}, Seen: true,
		Rule: "argument 1 (requests) must be between 0 and 1000000, and argument 2 (window) at least 1ms and at most 29 years",
		Effect: "with -enable-ratelimits, each client takes 24 bytes for each request; below zero, the second request hangs; other " +
			"windows keep a core busy permanently",
		mistake: func(args []any, _ int) string { return clientLimit(args, 0) },
	},
	{
		Filters: []string{"clusterRatelimit", "backendRatelimit"},
		Rule:    "argument 2 (requests) must be between 0 and 10000000",
		Effect:  "as ratelimit, in proxies that share their limits in a swarm",
		mistake: func(args []any, _ int) string { return within(args, 1, "number of requests", 0, maxHits) },
	},
	{
		Filters: []string{"clusterClientRatelimit"},
		Rule:    "argument 2 (requests) must be between 0 and 1000000, and argument 3 (window) at least 1ms and at most 29 years",
		Effect:  "as clientRatelimit, in proxies that share their limits in a swarm",
		mistake: func(args []any, _ int) string { return clientLimit(args, 1) },
	},
	{
		Filters: []string{"chunks", "backendChunks"},
		Rule:    "argument 1 (bytes) must be at most 67108864",
		Effect:  "each request takes a buffer of this size, outside of the code that recovers from a panic",
		mistake: func(args []any, _ int) string { return within(args, 0, "number of bytes", math.MinInt64, maxChunk) },
	},
	{
		Filters: []string{"basicAuth"},
		Rule:    "argument 1 (file) must not be a folder, or within /dev, /proc or /sys",
		Effect:  "applying the route reads without end, waits, or ends the process",
		mistake: func(args []any, _ int) string { return readable(args) },
	},
	{
		Filters: []string{"teeLoopback"}, Seen: true,
		Rule:   "a route may have it 3 times",
		Effect: "each copy of a request meets the filters again, so one request becomes thousands and takes gigabytes",
		mistake: func(_ []any, count int) string {
			if count > maxTees {
				return fmt.Sprintf("it occurs %d times in one route, and copies of requests multiply", count)
			}
			return ""
		},
	},
}

// Dangers returns the rules, for documents. The caller must not change them.
func Dangers() []Danger { return dangers }

// Survives returns an error that names the filter if no proxy would survive the filters of a route: it creates them for any
// backend.
func Survives(filters []*eskip.Filter) error {
	for i, f := range filters {
		at := slices.IndexFunc(dangers, func(d Danger) bool { return slices.Contains(d.Filters, f.Name) })
		if at < 0 {
			continue
		}
		count := 1
		for _, before := range filters[:i] {
			if before.Name == f.Name {
				count++
			}
		}
		if wrong := dangers[at].mistake(f.Args, count); wrong != "" {
			return fmt.Errorf("filter %s: %s; %s", f, wrong, dangers[at].Rule)
		}
	}
	return nil
}

// within checks a number, without its fraction. A proxy refuses other types, or they have another meaning.
func within(args []any, at int, what string, least, most int64) string {
	if at >= len(args) {
		return ""
	}
	n, ok := Number(args[at])
	if ok && (math.Trunc(n) < float64(least) || math.Trunc(n) > float64(most)) {
		return fmt.Sprintf("the %s %v is out of bounds", what, args[at])
	}
	return ""
}

// clientLimit checks the requests at a position, and the window that follows. Numbers are seconds there.
func clientLimit(args []any, at int) string {
	if wrong := within(args, at, "number of requests", 0, maxClientHits); wrong != "" {
		return wrong
	}
	if at++; at >= len(args) {
		return ""
	}
	if n, ok := Number(args[at]); ok {
		if n = math.Trunc(n); n < 1 || n > maxWindow.Seconds() {
			return fmt.Sprintf("the window of %v seconds is out of bounds", args[at])
		}
		return ""
	}
	if d, err := time.ParseDuration(fmt.Sprint(args[at])); err == nil && (d < minTick || d > maxWindow) {
		return fmt.Sprintf("the window %q is out of bounds", args[at])
	}
	return ""
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

// killers returns the routes of t that no proxy survives, sorted by id, except those that t shares with checked. It parses only
// routes with a hint.
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
