package table

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/eskip"
)

// minZoneEndpoints is the minimum number of endpoints in a zone for limiting a route to them: fewer would concentrate the load of
// a zone on too few backends.
const minZoneEndpoints = 3

const zoneParam = "?zone="

// MaxZones is how many zones a table has at most: each costs memory in a server that is asked for it.
const MaxZones = 64

// mostZones returns the zones of all blocks, sorted: if there are more than MaxZones, those that the most blocks have.
func mostZones(blocks []*Block) []string {
	all := union(blocks, func(b *Block) []string { return b.zones() })
	if len(all) <= MaxZones {
		return all
	}
	count := make(map[string]int, len(all))
	for _, b := range blocks {
		for _, zone := range b.zones() {
			count[zone]++
		}
	}
	slices.SortStableFunc(all, func(a, b string) int { return cmp.Compare(count[b], count[a]) })
	all = slices.Clip(all[:MaxZones])
	slices.Sort(all)
	return all
}

// Zones returns the zones of the table's endpoints, sorted; if there are more than [MaxZones], those that most parts of the table have. It omits zones that occur only in routes that opt out of zone
// selection: their zone table is the full table, as for an unknown zone. The slice is shared: it must not be changed.
func (t *Table) Zones() []string { return t.zones() }

// Zone returns the table for data planes in a zone: every route with at least three endpoints in the zone keeps only these, in
// their order; every other route is unchanged. It returns t itself if the zone is unknown or nothing differs. The result has the
// revision and time of t and shares unchanged blocks with it. It costs a hash, and the blocks that no earlier table had.
func (t *Table) Zone(zone string) *Table { return t.ZoneAfter(zone, nil) }

// ZoneAfter is Zone with the previous table of the zone, which may be nil: see [Table.Next].
func (t *Table) ZoneAfter(zone string, before *Table) *Table {
	if _, known := slices.BinarySearch(t.Zones(), zone); !known {
		return t
	}
	differs := false
	blocks := make([]*Block, len(t.list.blocks))
	for i, b := range t.list.blocks {
		blocks[i] = b.zone(zone)
		differs = differs || blocks[i] != b
	}
	if !differs {
		return t
	}
	return before.Next(newList(blocks, t.list.packed), t.revision, t.at)
}

// zonesOf returns the distinct zones of the endpoints of routes, sorted.
func zonesOf(routes []*Route) []string {
	distinct := make(map[string]struct{})
	var scratch []endpoint
	for _, r := range routes {
		if r.Backend == 0 {
			continue
		}
		scratch = endpoints(r, scratch[:0])
		for _, ep := range scratch {
			if _, known := distinct[ep.zone]; !known && ep.zone != "" {
				distinct[strings.Clone(ep.zone)] = struct{}{} // a clone, so that the route's text is not kept in memory
			}
		}
	}
	return slices.Sorted(maps.Keys(distinct))
}

// endpoint is one endpoint of a printed load-balanced backend.
type endpoint struct {
	quoted string // as printed, including quotes
	zone   string // decoded
}

// zoneText returns the route's text with only the endpoints of the zone, or the unchanged text if the rule does not apply.
func zoneText(r *Route, zone string, scratch []endpoint) (string, []endpoint) {
	eps := endpoints(r, scratch)
	in, size := 0, 0
	for _, ep := range eps {
		if ep.zone == zone {
			in++
			size += len(ep.quoted) + len(", ")
		}
	}
	if in < minZoneEndpoints || in == len(eps) {
		return r.Text, eps
	}
	// Keep everything before the first endpoint: the algorithm with its comma, if there is one.
	head := r.Text[:int(r.Backend)+strings.IndexByte(r.Text[r.Backend:], '"')]
	var b strings.Builder
	b.Grow(len(head) + size + len(">;"))
	b.WriteString(head)
	for _, ep := range eps {
		if ep.zone != zone {
			continue
		}
		if b.Len() > len(head) {
			b.WriteString(", ")
		}
		b.WriteString(ep.quoted)
	}
	b.WriteString(">;")
	return b.String(), eps
}

// endpoints appends the endpoints of r's printed backend, <algorithm, "endpoint", …>, to eps. It appends nothing if the text at
// r.Backend does not have that form.
func endpoints(r *Route, eps []endpoint) []endpoint {
	rest := r.Text[r.Backend:]
	if !strings.HasPrefix(rest, "<") {
		return eps
	}
	for {
		open := strings.IndexByte(rest, '"')
		if open < 0 {
			return eps
		}
		end := closingQuote(rest, open+1, '"')
		if end < 0 {
			return eps
		}
		eps = append(eps, endpoint{quoted: rest[open : end+1], zone: zoneOf(rest[open+1 : end])})
		rest = rest[end+1:]
	}
}

// zoneOf returns the zone of an endpoint as printed between its quotes. It handles the usual form of pod addresses itself, and
// leaves everything that needs knowledge of URLs or escapes to eskip.
func zoneOf(printed string) string {
	at := strings.IndexByte(printed, '?')
	if at < 0 {
		return ""
	}
	zone, ok := strings.CutPrefix(printed[at:], zoneParam)
	if ok && plainAddress(printed[:at]) && plainZone(zone) {
		return zone
	}
	if strings.IndexByte(printed, '\\') >= 0 {
		return parsedZone(printed)
	}
	return eskip.NewLBEndpoints([]string{printed})[0].Zone
}

// parsedZone parses an endpoint with escapes.
func parsedZone(printed string) string {
	routes, err := eskip.Parse(`r: * -> <"` + printed + `">`)
	if err != nil || len(routes) != 1 || len(routes[0].LBEndpoints) != 1 {
		return ""
	}
	return routes[0].LBEndpoints[0].Zone
}

// plainAddress reports whether s is scheme://host:port without characters that need escapes.
func plainAddress(s string) bool {
	if !strings.Contains(s, "://") {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !unreserved(c) && c != ':' && c != '/' && c != '[' && c != ']' {
			return false
		}
	}
	return true
}

// plainZone reports whether s is a zone that equals its query-escaped form.
func plainZone(s string) bool {
	for i := range len(s) {
		if !unreserved(s[i]) {
			return false
		}
	}
	return s != ""
}

// unreserved reports whether c stands for itself everywhere in a URL (RFC 3986 §2.3).
func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}
