package guard

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

const (
	// minNamespace is how many routes a namespace must have had for its loss to be suspicious: small ones come and go.
	minNamespace = 20
	// restTolerance is the share of their routes that all other namespaces together may lose at the same time.
	restTolerance = 0.05
	// shownNamespaces limits the names in a detail.
	shownNamespaces = 3
)

// lostNamespaces returns the namespaces that a change removes, with how many routes they had; none if it changes the rest too
// much.
func (g *Guard) lostNamespaces(d *difference) map[string]int {
	lost := make(map[string]int)
	var rest count
	for s, c := range d.changes {
		if s.kind != namespaceRoutes {
			continue
		}
		size := g.size(s)
		if len(c.gone) > 0 && size+len(c.come) <= len(c.gone)+len(c.left) {
			if had := g.window(s).older(c, size).all; had >= minNamespace {
				lost[s.namespace] = had
				rest.all -= size
				continue
			}
		}
		rest.missing += len(c.gone)
	}
	if len(lost) == 0 {
		return nil
	}
	for _, n := range g.census[namespaces] {
		rest.all += int(n)
	}
	if rest.beyond(restTolerance) && g.held.Since.IsZero() {
		return nil
	}
	return lost
}

// describeLost names the namespaces and their routes.
func describeLost(sizes map[string]int) string {
	names, routes := slices.Sorted(maps.Keys(sizes)), 0
	for _, n := range sizes {
		routes += n
	}
	if len(names) == 1 {
		return fmt.Sprintf("all %d routes of namespace %s are gone", routes, names[0])
	}
	shown := strings.Join(names[:min(len(names), shownNamespaces)], ", ")
	if more := len(names) - shownNamespaces; more > 0 {
		shown += " and " + strconv.Itoa(more) + " more"
	}
	return fmt.Sprintf("all %d routes of %d namespaces are gone: %s", routes, len(names), shown)
}
