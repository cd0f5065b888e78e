package table_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/table"
)

const noLimit = 1 << 40

// randomTables are two tables that have some routes in common.
func randomTables(t testing.TB, rng *rand.Rand, n int) (a, b *table.Table) {
	t.Helper()
	var first, second []table.Route
	random := func(id string) table.Route {
		for {
			r := randomRoute(rng, id)
			printed := table.NewRoute(r)
			if back, err := eskip.Parse(printed.Text); err == nil && len(back) == 1 && eskip.Eq(back[0], r) {
				return printed // compile omits the others
			}
		}
	}
	for i := range n {
		id := fmt.Sprintf("r%d", i)
		r := random(id)
		switch rng.IntN(6) {
		case 0:
			first = append(first, r)
		case 1:
			second = append(second, r)
		case 2:
			first, second = append(first, r), append(second, random(id))
		default:
			first, second = append(first, r), append(second, r)
		}
	}
	a, errA := table.New(first, 1, at)
	b, errB := table.New(second, 2, at)
	if err := errors.Join(errA, errB); err != nil {
		t.Fatal(err)
	}
	return a, b
}

// between returns the minimal delta that leads from one table to another.
func between(base, target *table.Table) *table.Delta {
	d := &table.Delta{Base: base.Digest(), Target: target.Digest(), Revision: target.Revision(), Count: target.Len()}
	for was, is := range table.Changes(base.Routes(), target.Routes()) {
		if is == nil {
			d.Deletes = append(d.Deletes, was.ID)
		} else {
			d.Upserts = append(d.Upserts, is.Text)
		}
	}
	return d
}

func readDelta(data []byte) (*table.Delta, error) {
	return table.ReadDelta(bytes.NewReader(data), noLimit)
}

// notText is in the error of a delta that has no wire form.
const notText = "a route is not UTF-8"

// overTheWire is the delta as a client gets it; nil if it has no wire form.
func overTheWire(t testing.TB, d *table.Delta) *table.Delta {
	t.Helper()
	data, err := d.AppendJSON(nil)
	if err != nil && strings.Contains(err.Error(), notText) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(data) || strings.Contains(string(data), "\n") {
		t.Fatalf("not one line of JSON: %q", data)
	}
	back, err := readDelta(data)
	if err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	return back
}

// checkDelta checks the law: applying a delta gives the bytes of the target.
func checkDelta(t testing.TB, a, b *table.Table) {
	t.Helper()
	d := overTheWire(t, between(a, b))
	if d == nil {
		return
	}
	got, err := a.Apply(d, at, noLimit)
	if err != nil {
		t.Fatalf("%v\nfrom %s\nto %s", err, a.Text(), b.Text())
	}
	if string(got.Text()) != string(b.Text()) || got.Digest() != b.Digest() || got.Revision() != b.Revision() {
		t.Fatalf("got %d\n%s\nwant %d\n%s", got.Revision(), got.Text(), b.Revision(), b.Text())
	}
	for _, zone := range b.Zones() {
		if string(got.Zone(zone).Text()) != string(b.Zone(zone).Text()) {
			t.Fatalf("zone %s differs after the delta", zone)
		}
	}
}

func TestAppliedDeltaIsTheTarget(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 3))
		a, b := randomTables(t, rng, rng.IntN(40))
		checkDelta(t, a, b)
		checkDelta(t, b, a)
		checkDelta(t, a, a)
	}
}

func FuzzAppliedDeltaIsTheTarget(f *testing.F) {
	f.Add(uint64(1), uint8(3))
	f.Add(uint64(7), uint8(200))
	f.Fuzz(func(t *testing.T, seed uint64, n uint8) {
		rng := rand.New(rand.NewPCG(seed, 3))
		a, b := randomTables(t, rng, int(n))
		checkDelta(t, a, b)
	})
}

// FuzzHostileDelta checks that no delta does harm: it leads to what it says, or to an error.
func FuzzHostileDelta(f *testing.F) {
	base := parse(f, document)
	good, err := between(base, parse(f, `a: Path("/other") -> <shunt>`)).AppendJSON(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"base":"` + base.Digest().String() + `","target":"` + base.Digest().String() + `","count":0}`))
	f.Add([]byte(`{"upserts":["a: * -> <shunt>;\nb: * -> <shunt>;"]}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := readDelta(data)
		if err != nil {
			return
		}
		d.Base = base.Digest()
		got, err := base.Apply(d, at, 1000)
		if err != nil {
			return
		}
		if got.Digest() != d.Target || got.Len() != d.Count || got.Bytes() > 1000 {
			t.Fatalf("%s with %d routes and %d bytes of %s", got.Digest(), got.Len(), got.Bytes(), data)
		}
		if _, err := eskip.Parse(string(got.Text())); err != nil {
			t.Fatalf("%v in %s", err, got.Text())
		}
	})
}

func TestDeltaWireForm(t *testing.T) {
	a, b := parse(t, `a: * -> <shunt>; b: Path("/b") -> <shunt>; c: * -> <shunt>`), parse(t, `a: * -> <shunt>; b: Path("/<é>") -> <shunt>`)
	got, err := between(a, b).AppendJSON([]byte("data: "))
	want := fmt.Sprintf(`data: {"base":"%s","target":"%s","revision":7,"count":2,"deletes":["c"],"upserts":["b: Path(\"/<é>\") -> <shunt>;"]}`,
		a.Digest(), b.Digest())
	if err != nil || string(got) != want {
		t.Errorf("error %v\ngot  %s\nwant %s", err, got, want)
	}
	none, err := between(a, a).AppendJSON(nil)
	if err != nil || !strings.HasSuffix(string(none), `"deletes":[],"upserts":[]}`) {
		t.Errorf("delta to the same table: %s, error %v, want empty lists", none, err)
	}
}

func TestDeltaThatIsNoneIsRefused(t *testing.T) {
	base := parse(t, document)
	target := parse(t, document+`; zz: * -> <shunt>`)
	good := between(base, target)
	for _, tt := range []struct {
		name   string
		change func(*table.Delta)
		limit  int64
		want   string
	}{
		{"other base", func(d *table.Delta) { d.Base = target.Digest() }, noLimit, "delta is for another table"},
		{"other target", func(d *table.Delta) { d.Target = base.Digest() }, noLimit, "delta does not lead to its target"},
		{"count", func(d *table.Delta) { d.Count++ }, noLimit, "delta does not lead to its target"},
		{"lost upsert", func(d *table.Delta) { d.Upserts = nil }, noLimit, "delta does not lead to its target"},
		{"delete too many", func(d *table.Delta) { d.Deletes = []string{base.Routes().Blocks()[0].Routes()[0].ID} }, noLimit, "delta does not lead to its target"},
		{"too large", func(*table.Delta) {}, int64(target.Bytes() - 1), "delta does not lead to its target"},
		{"twice", func(d *table.Delta) { d.Upserts = append(d.Upserts, d.Upserts[0]) }, noLimit, "duplicate route id"},
		{"not a route", func(d *table.Delta) { d.Upserts = []string{"zz: *"} }, noLimit, ""},
	} {
		d := *good
		tt.change(&d)
		got, err := base.Apply(&d, at, tt.limit)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: table %v, error %v, want %v", tt.name, got, err, tt.want)
		}
	}
	if got, err := base.Apply(good, at, int64(target.Bytes())); err != nil || got.Digest() != target.Digest() {
		t.Errorf("a table of just the limit: error %v", err)
	}
	for _, data := range []string{``, `{}`, `[]`, `{"base":"x"}`, `{"count":-1}`, `{"base":"` + base.Digest().String() + `"}`} {
		if d, err := readDelta([]byte(data)); err == nil {
			t.Errorf("%q gives %+v", data, d)
		}
	}
	whole, err := good.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readDelta(append(whole, whole...)); err == nil {
		t.Error("two deltas in one are taken")
	}
	if _, err := readDelta([]byte(strings.Replace(string(whole), "{", `{"later":{"a":1},`, 1))); err != nil {
		t.Errorf("a field of a later version: %v", err)
	}
}

func TestTextThatIsNotUTF8HasNoDelta(t *testing.T) {
	a, b := parse(t, `a: * -> <shunt>`), parse(t, "a: Path(\"/\xff\") -> <shunt>")
	if _, err := between(a, b).AppendJSON(nil); err == nil || !strings.Contains(err.Error(), notText) {
		t.Errorf("error %v, want %q", err, notText)
	}
	if diff := cmp.Diff(between(b, a).Upserts, []string{"a: * -> <shunt>;"}); diff != "" {
		t.Error(diff)
	}
}

// What is written can be read: beyond the limit of readers there is no wire form.
func TestADeltaHasALimit(t *testing.T) {
	for size, want := range map[int]error{4<<20 - 1000: nil, 4 << 20: table.ErrTooLarge} {
		d := table.Delta{Base: table.Digest{1}, Target: table.Digest{2}, Upserts: []string{strings.Repeat("x", size)}}
		data, err := d.AppendJSON(nil)
		if !errors.Is(err, want) {
			t.Fatalf("%d bytes: error %v, want %v", size, err, want)
		}
		if want == nil {
			if back, err := readDelta(data); err != nil || len(back.Upserts[0]) != size {
				t.Errorf("%d bytes are not read: %v", size, err)
			}
		}
	}
}
