package table

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/eskip"
)

// minZoneEndpoints is the minimum for limiting a route to a zone: fewer would get too much of its load.
const minZoneEndpoints = 3

// maxZones is the maximum number of zones of a table: each requested zone costs memory in a server.
const maxZones = 64

// mostZones returns the zones that most blocks have, sorted.
func mostZones(blocks []*Block) []string {
	count := make(map[string]int)
	for _, b := range blocks {
		for _, zone := range b.zones() {
			count[zone]++
		}
	}
	all := slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), strings.Compare(a, b))
	})
	all = slices.Clip(all[:min(len(all), maxZones)])
	slices.Sort(all)
	return all
}

// Zones returns at most 64 zones of the endpoints, sorted, except those of routes that opt out. Do not change the slice.
func (t *Table) Zones() []string { return t.zones() }

// Zone returns the table for data planes in a zone: every route with at least three endpoints in the zone keeps only these. It
// returns t itself if the zone is unknown or nothing differs, and shares unchanged blocks with it.
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
	return before.Next(newList(blocks), t.revision, t.at)
}

// Keys of the zone data that a block caches.
type (
	zonesMemo struct{} // its zones
	zoneMemo  string   // its block for a zone
)

func (b *Block) zones() []string {
	return b.Memo(zonesMemo{}, func() any {
		distinct := make(map[string]struct{})
		for _, r := range b.Routes() {
			_, all := endpoints(r.Text)
			for _, ep := range all {
				if _, known := distinct[ep.zone]; !known && ep.zone != "" {
					distinct[strings.Clone(ep.zone)] = struct{}{} // a clone, so that the route's text is not kept in memory
				}
			}
		}
		return slices.Sorted(maps.Keys(distinct))
	}).([]string)
}

func (b *Block) zone(zone string) *Block {
	if _, in := slices.BinarySearch(b.zones(), zone); !in {
		return b
	}
	return b.Memo(zoneMemo(zone), func() any {
		differs := false
		routes := b.Routes()
		for _, r := range routes {
			if text := zoneText(r.Text, zone); text != r.Text {
				r.Text, differs = text, true
			}
		}
		if !differs {
			return b
		}
		return newBlock(routes)
	}).(*Block)
}

func zoneText(text, zone string) string {
	head, all := endpoints(text)
	var in []string
	for _, ep := range all {
		if ep.zone == zone {
			in = append(in, ep.quoted)
		}
	}
	if len(in) < minZoneEndpoints || len(in) == len(all) {
		return text
	}
	return head + strings.Join(in, ", ") + ">;"
}

// zoneOptOut is the filter that excludes a route from zone selection, with exactly these two arguments.
const zoneOptOut = `-> annotate("zalando.org/traffic-zone-aware", "false")`

type endpoint struct {
	quoted string // as printed, including quotes
	zone   string // decoded
}

// endpoints returns the endpoints of a route, and the text before them; none if no zone table of the route may differ.
func endpoints(text string) (head string, all []endpoint) {
	if !strings.Contains(text, "zone=") || strings.Contains(text, zoneOptOut) {
		return "", nil
	}
	begin := len(text)
	for i := range outside(text) {
		if text[i] == '<' { // only a backend begins with it
			begin = i
		}
	}
	first := strings.IndexByte(text[begin:], '"')
	if first < 0 {
		return "", nil
	}
	head = text[:begin+first]
	for rest := text[begin+first:]; strings.HasPrefix(rest, `"`); {
		end := closingQuote(rest, 1, '"')
		if end < 0 {
			break
		}
		all = append(all, endpoint{quoted: rest[:end+1], zone: zoneOf(rest[1:end])})
		var more bool
		if rest, more = strings.CutPrefix(rest[end+1:], ", "); !more && rest == ">;" {
			return head, all
		}
	}
	return "", nil
}

func zoneOf(printed string) string {
	if strings.IndexByte(printed, '\\') < 0 {
		return eskip.NewLBEndpoints([]string{printed})[0].Zone
	}
	routes, err := eskip.Parse(`r: * -> <"` + printed + `">`)
	if err != nil || len(routes) != 1 || len(routes[0].LBEndpoints) != 1 {
		return ""
	}
	return routes[0].LBEndpoints[0].Zone
}
