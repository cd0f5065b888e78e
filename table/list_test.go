package table_test

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/table"
)

// line is a route without meaning. It shares one host with a few others all over the list, and one with its neighbours.
func line(id string, version int) *table.Route {
	n, _ := strconv.Atoi(id[1:]) // all other ids share one
	hosts := fmt.Sprintf("^(n%d[.]org|v%d[.]n%d[.]org)$", n%997, version, n/100)
	return &table.Route{ID: id, Text: fmt.Sprintf("%s: Path(\"/%d\") -> <shunt>;", id, version), Hosts: hosts}
}

func listOf(t testing.TB, routes map[string]*table.Route) table.List {
	t.Helper()
	l, err := table.List{}.With(slices.Collect(maps.Values(routes)), nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// blockTexts returns the texts of the blocks of a list.
func blockTexts(l table.List) []string {
	var texts []string
	for _, b := range l.Blocks() {
		text := string(b.AppendText(nil))
		if len(text) != b.Bytes() {
			text += fmt.Sprintf(" (%d bytes, says %d)", len(text), b.Bytes())
		}
		texts = append(texts, text)
	}
	return texts
}

// walkLists makes random changes and checks these laws after each of them: a changed list has the same blocks
// as a new list of the same routes. Changes returns exactly what was changed. The table has the digest and the hosts of a new one,
// whether or not those of earlier tables were computed. What two tables report about each other matches their texts.
func walkLists(t testing.TB, seed uint64, routes, steps int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 7))
	model := make(map[string]*table.Route)
	id := func() string { return fmt.Sprintf("r%05d", rng.IntN(2*routes)) }
	for range routes {
		i := id()
		model[i] = line(i, 0)
	}
	list := listOf(t, model)
	tab := table.Of(list, 0, at)
	for step := range steps {
		before, was := list, maps.Clone(model)
		var upserts []*table.Route
		var deletes []string
		for n := rng.IntN(1 << rng.IntN(8)); n > 0; n-- {
			i := id()
			if rng.IntN(3) == 0 {
				if !slices.ContainsFunc(upserts, func(r *table.Route) bool { return r.ID == i }) {
					deletes = append(deletes, i)
					delete(model, i)
				}
				continue
			}
			if slices.ContainsFunc(upserts, func(r *table.Route) bool { return r.ID == i }) {
				continue
			}
			r := line(i, rng.IntN(3))
			upserts = append(upserts, r)
			model[i] = r
		}
		var err error
		if list, err = list.With(upserts, deletes); err != nil {
			t.Fatalf("seed %d, step %d: %v", seed, step, err)
		}
		anew := listOf(t, model)
		previous := tab
		tab = tab.Next(list, uint64(step), at)
		if rng.IntN(3) > 0 {
			if want := table.Digest(sha256.Sum256(table.Of(anew, 0, at).Text())); tab.Digest() != want {
				t.Fatalf("seed %d, step %d: digest %s of a table that continues the previous one, want %s", seed, step, tab.Digest(), want)
			}
		}
		if step%4 == 0 {
			comparePair(t, fmt.Sprintf("seed %d, step %d", seed, step), previous, tab)
			comparePair(t, fmt.Sprintf("seed %d, step %d, built from scratch", seed, step), table.Of(anew, 0, at), tab)
		}
		if list.Len() != len(model) || table.Of(list, 0, at).Bytes() != table.Of(anew, 0, at).Bytes() {
			t.Fatalf("seed %d, step %d: %d routes, want %d", seed, step, list.Len(), len(model))
		}
		if diff := cmp.Diff(blockTexts(anew), blockTexts(list)); diff != "" {
			t.Fatalf("seed %d, step %d: cut otherwise than a new list (-new +changed):\n%s", seed, step, diff)
		}
		checkChanges(t, fmt.Sprintf("seed %d, step %d", seed, step), before, list, was, model)
		if got, want := routesOf(tab), routesOf(table.Of(anew, 0, at)); !slices.Equal(got, want) {
			t.Fatalf("seed %d, step %d: the routes are not those of a new list", seed, step)
		}
		if i := id(); (list.Get(i) == nil) != (model[i] == nil) || list.Get(i) != nil && *list.Get(i) != *model[i] {
			t.Fatalf("seed %d, step %d: route %s is %v, want %v", seed, step, i, list.Get(i), model[i])
		}
	}
}

// comparePair checks what two tables report about each other against their texts.
func comparePair(t testing.TB, where string, a, b *table.Table) {
	t.Helper()
	same := string(a.Text()) == string(b.Text())
	if a.Equal(b) != same || b.Equal(a) != same {
		t.Fatalf("%s: equal %v, want %v", where, a.Equal(b), same)
	}
}

func checkChanges(t testing.TB, where string, before, after table.List, was, is map[string]*table.Route) {
	t.Helper()
	text := func(r *table.Route) string {
		if r == nil {
			return ""
		}
		return r.Text
	}
	got, want := make(map[string][2]string), make(map[string][2]string)
	last := ""
	for old, now := range table.Changes(before, after) {
		id := ""
		if old != nil {
			id = old.ID
		} else {
			id = now.ID
		}
		if id <= last {
			t.Fatalf("%s: %s after %s", where, id, last)
		}
		last = id
		got[id] = [2]string{text(old), text(now)}
	}
	for id, r := range was {
		if text(r) != text(is[id]) {
			want[id] = [2]string{text(r), text(is[id])}
		}
	}
	for id, r := range is {
		if was[id] == nil {
			want[id] = [2]string{"", text(r)}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s: changes (-want +got):\n%s", where, diff)
	}
}

func FuzzChangedListIsTheListMadeAnew(f *testing.F) {
	f.Add(uint64(1), uint16(10))
	f.Add(uint64(2), uint16(4000))
	f.Fuzz(func(t *testing.T, seed uint64, routes uint16) {
		walkLists(t, seed, int(routes)+1, 6)
	})
}

func TestListSharesWhatDidNotChange(t *testing.T) {
	routes := make(map[string]*table.Route)
	for i := range 20_000 {
		id := fmt.Sprintf("r%05d", i)
		routes[id] = line(id, 0)
	}
	before := listOf(t, routes)
	after, err := before.With([]*table.Route{line("r07777", 1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	shared := 0
	for _, b := range after.Blocks() {
		if slices.Contains(before.Blocks(), b) {
			shared++
		}
	}
	if n := len(after.Blocks()); n < 20 || shared != n-1 {
		t.Errorf("%d of %d blocks are shared, want all but one of many", shared, n)
	}
	for i, b := range before.Blocks() { // without the first route of a block its cut disappears
		after, err := before.With(nil, []string{b.Routes()[0].ID})
		if err != nil {
			t.Fatal(err)
		}
		made := 0
		for _, b := range after.Blocks() {
			if !slices.Contains(before.Blocks(), b) {
				made++
			}
		}
		if made > 2 { // the block before it has absorbed it, and may have become too long
			t.Errorf("without the first route of block %d, %d blocks are new", i, made)
		}
	}
	if same, err := after.With(nil, nil); err != nil || &same.Blocks()[0] != &after.Blocks()[0] {
		t.Errorf("no change gives another list, error %v", err)
	}
}

// A run of ids without a cut is cut all the same, and a change in it affects only that run.
func TestBlocksAreBounded(t *testing.T) {
	all := make(map[string]*table.Route)
	for i := 0; len(all) < 10_000; i++ {
		id := fmt.Sprintf("r%06d", i)
		l := listOf(t, map[string]*table.Route{"a": line("a", 0), id: line(id, 0)})
		if len(l.Blocks()) == 1 { // not the first of a block
			all[id] = line(id, 0)
		}
	}
	l := listOf(t, all)
	for _, b := range l.Blocks() {
		if n := len(b.Routes()); n > 2048 {
			t.Errorf("a block of %d routes", n)
		}
	}
	changed, err := l.With([]*table.Route{line("r000000a", 0)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	all["r000000a"] = line("r000000a", 0)
	if diff := cmp.Diff(blockTexts(listOf(t, all)), blockTexts(changed)); diff != "" {
		t.Errorf("cut otherwise than a new list:\n%s", diff)
	}
}

func TestListFindsRoutesByID(t *testing.T) {
	routes := make(map[string]*table.Route)
	for i := range 5000 {
		id := fmt.Sprintf("r%05d", 2*i)
		routes[id] = line(id, 0)
	}
	l := listOf(t, routes)
	for i := range 10_001 {
		id := fmt.Sprintf("r%05d", i)
		if got := l.Get(id); (got == nil) != (routes[id] == nil) || got != nil && *got != *routes[id] {
			t.Fatalf("Get(%s) = %v, want %v", id, got, routes[id])
		}
	}
	if got := l.Get("a"); got != nil {
		t.Errorf("Get of an id before all = %v", got)
	}
	if got := (table.List{}).Get("a"); got != nil {
		t.Errorf("Get of an empty list = %v", got)
	}
	at := 0
	for r := range l.All() {
		if r.ID != fmt.Sprintf("r%05d", 2*at) {
			t.Fatalf("route %d is %s", at, r.ID)
		}
		at++
	}
}

func TestChangesAreChecked(t *testing.T) {
	l := listOf(t, map[string]*table.Route{"a": line("a", 0)})
	for _, tt := range []struct {
		name    string
		upserts []*table.Route
		want    string
	}{
		{"twice", []*table.Route{line("b", 0), line("b", 1)}, "duplicate route id"},
		{"id", []*table.Route{line("b-c", 0)}, "invalid route id"},
		{"text", []*table.Route{{ID: "b", Text: "c: * -> <shunt>;"}}, "route text is not"},
		{"line", []*table.Route{{ID: "b", Text: "b: * -> <shunt>;\nc: * -> <shunt>;"}}, "route text is not"},
	} {
		if _, err := l.With(tt.upserts, nil); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.want)
		}
	}
	if _, err := (table.List{}).With([]*table.Route{line("b", 0), line("b", 1)}, nil); !strings.Contains(fmt.Sprint(err), "duplicate route id") || !strings.Contains(err.Error(), `"b"`) {
		t.Errorf("With: error %v, want one that names the id", err)
	}
	both, err := l.With([]*table.Route{line("a", 1)}, []string{"a", "z"})
	if err != nil || both.Get("a") == nil || both.Get("a").Text != line("a", 1).Text {
		t.Errorf("an id in both lists: %v, error %v, want the route", both.Get("a"), err)
	}
}

// When the first route of a segment is removed, its cut disappears: the rest belongs to the previous segment, whether or not that
// one changes.
func TestAListIsCutAnewWhereTheFirstRouteOfABlockGoes(t *testing.T) {
	routes := make(map[string]*table.Route)
	for i := range 4000 {
		id := fmt.Sprintf("r%05d", i)
		routes[id] = line(id, 0)
	}
	list := listOf(t, routes)
	blocks := list.Blocks()
	if len(blocks) < 5 {
		t.Fatalf("%d blocks are too few", len(blocks))
	}
	for i, b := range blocks {
		first := b.Routes()[0].ID
		for name, change := range map[string]struct {
			upserts []*table.Route
			deletes []string
		}{
			"alone":                 {nil, []string{first}},
			"with its neighbour":    {nil, []string{first, b.Routes()[1].ID}},
			"with one before":       {[]*table.Route{line(blocks[max(0, i-1)].Routes()[1].ID, 1)}, []string{first}},
			"with all of it":        {nil, idsOf(b)},
			"with the block before": {nil, append(idsOf(blocks[max(0, i-1)]), first)},
		} {
			want := maps.Clone(routes)
			for _, id := range change.deletes {
				delete(want, id)
			}
			for _, r := range change.upserts {
				want[r.ID] = r
			}
			got, err := list.With(change.upserts, change.deletes)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(blockTexts(listOf(t, want)), blockTexts(got)); diff != "" {
				t.Errorf("block %d, %s: cut otherwise than a new list (-new +changed):\n%.500s", i, name, diff)
			}
		}
	}
}

func idsOf(b *table.Block) []string {
	var ids []string
	for _, r := range b.Routes() {
		ids = append(ids, r.ID)
	}
	return ids
}
