package guard

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/routesrv/routesrv/internal/routeid"
	"github.com/routesrv/routesrv/table"
)

const (
	// minNamespace is how many routes a namespace must have had for its loss to be suspicious: small ones come and go.
	minNamespace = 20
	// restTolerance is the share of their routes that all other namespaces together may lose at the same time.
	restTolerance = 0.05
	// shownNamespaces limits the names in a detail.
	shownNamespaces = 3
)

// namespaces counts the routes of a table by namespace. Routes without a namespace are not counted.
type namespaces struct {
	routes map[string]int
	all    int
}

// countNamespaces counts the routes of t by namespace.
func countNamespaces(t *table.Table) *namespaces {
	n := &namespaces{routes: make(map[string]int)}
	for r := range t.Routes().All() {
		n.add(r.ID, 1)
	}
	return n
}

// apply updates the counts for the change.
func (n *namespaces) apply(c change[string]) {
	for _, id := range c.gone {
		n.add(id, -1)
	}
	for _, id := range c.left {
		n.add(id, -1)
	}
	for _, id := range c.come {
		n.add(id, 1)
	}
}

func namespaceOf(r *table.Route) string { return routeid.NamespaceOf(r.ID) }

func (n *namespaces) add(id string, routes int) {
	name := routeid.NamespaceOf(id)
	if name == "" {
		return
	}
	count, known := n.routes[name]
	switch {
	case count+routes == 0:
		delete(n.routes, name)
	case known:
		n.routes[name] = count + routes
	default:
		n.routes[strings.Clone(name)] = routes // cloned, so that the key does not pin the route's text
	}
	n.all += routes
}

// namespacesOf returns the counts of the served table. It counts on first use, and later updates the counts from the changes. The
// caller holds mu.
func (g *Guard) namespacesOf(served *table.Table) *namespaces {
	if g.namespaces == nil {
		g.namespaces = countNamespaces(served)
	}
	return g.namespaces
}

// lostNamespaces returns the namespaces that a change removes, with how many routes they had; none if it changes the rest too
// much. It costs as much as the change; only for a lost namespace it searches the whole window. The caller holds mu.
func (g *Guard) lostNamespaces(served *table.Table, c change[string]) map[string]int {
	if len(c.gone) == 0 {
		return nil
	}
	gone, left := make(map[string]int), make(map[string]int) // left: by how many routes the namespace grew or shrank
	for _, id := range c.gone {
		if name := routeid.NamespaceOf(id); name != "" {
			gone[name]++
			left[name]--
		}
	}
	for _, id := range c.left {
		if name := routeid.NamespaceOf(id); name != "" {
			left[name]--
		}
	}
	for _, id := range c.come {
		if name := routeid.NamespaceOf(id); name != "" {
			left[name]++
		}
	}
	counts := g.namespacesOf(served)
	maps.DeleteFunc(left, func(name string, n int) bool { return gone[name] == 0 || counts.routes[name]+n > 0 })
	if len(left) == 0 {
		return nil
	}
	sizes := sizesOf(&g.ids, left, counts)
	maps.DeleteFunc(sizes, func(_ string, size int) bool { return size < minNamespace })
	rest := count{0, counts.all}
	for name, n := range gone {
		if _, lost := sizes[name]; lost {
			rest.all -= counts.routes[name]
		} else {
			rest.missing += n
		}
	}
	if len(sizes) == 0 || rest.beyond(restTolerance) && g.hold == nil && g.keeping.IsZero() {
		return nil
	}
	return sizes
}

// sizesOf counts the routes of namespaces that existed when the window began: the served ones and those lost since.
func sizesOf(w *window[string], names map[string]int, served *namespaces) map[string]int {
	sizes := make(map[string]int, len(names))
	for name := range names {
		sizes[name] = served.routes[name]
	}
	add := func(id string, n int) {
		name := routeid.NamespaceOf(id)
		if _, asked := sizes[name]; asked {
			sizes[name] += n
		}
	}
	for id := range w.gained {
		add(id, -1)
	}
	for id, l := range w.lost {
		if !l.young {
			add(id, 1)
		}
	}
	return sizes
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
