package compile

import (
	"slices"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/table"
)

// TestRouteThatTheTableRefusesCostsOnlyItself: the second line of defence behind the check of each printed route.
func TestRouteThatTheTableRefusesCostsOnlyItself(t *testing.T) {
	of := func(text string) made {
		id, _, _ := strings.Cut(text, ":")
		r := &table.Route{ID: id, Text: text}
		return made{printed: &printed{sum: sum(seed, r), route: r}}
	}
	s := &section{rank: fromOptions}
	sections := func(yield func(*section) bool) { yield(s) }
	c := newCandidates()
	c.watchMatches()
	ids := func(list table.List) (all []string) {
		for r := range list.All() {
			all = append(all, r.ID)
		}
		return all
	}

	c.replace(s, []made{of("a: * -> <shunt>;"), of("b: * -> <shunt>;")})
	list := c.award(table.List{}.Packed(), sections, texts{seed: seed}, true)
	if got := ids(list); !slices.Equal(got, []string{"a", "b"}) {
		t.Fatalf("the routes are %q", got)
	}
	// The next text of b is refused: the earlier one does not stay either.
	bad := of("b: * -> \"http://a\nb\";")
	bad.more = &more{id: "b", before: "x", clones: []*table.Route{{ID: "clone_b", Text: "clone_b: * -> <shunt>;"}}}
	c.replace(s, []made{of("a: * -> <loopback>;"), bad, of("c: * -> <shunt>;")})
	list = c.award(list, sections, texts{seed, []table.List{list}}, true)
	if got := ids(list); !slices.Equal(got, []string{"a", "c", "clone_b"}) {
		t.Errorf("the routes are %q", got)
	}
	problems := c.problems(texts{seed, []table.List{list}})
	if len(problems) != 1 || problems[0].Reason != InternalError || problems[0].Route != "b" {
		t.Errorf("the problems are %v", problems)
	}
	// It comes back when the text changes, and the problem ends.
	c.replace(s, []made{of("b: * -> <dynamic>;")})
	list = c.award(list, sections, texts{seed, []table.List{list}}, true)
	if got := ids(list); !slices.Equal(got, []string{"b"}) || len(c.problems(texts{seed, []table.List{list}})) != 0 {
		t.Errorf("the routes are %q, the problems %v", got, c.problems(texts{seed, []table.List{list}}))
	}
}
