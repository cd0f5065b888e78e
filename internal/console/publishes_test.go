package console_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/fleet"
	"github.com/routesrv/routesrv/internal/console"
	"github.com/routesrv/routesrv/table"
)

// tableOf returns a table with the given number of routes and read time.
func tableOf(t *testing.T, routes int, revision uint64, at time.Time) *table.Table {
	t.Helper()
	var text strings.Builder
	for i := range routes {
		text.WriteString("r")
		text.WriteString(strings.Repeat("x", i))
		text.WriteString(`: * -> <shunt>;` + "\n")
	}
	list, err := table.Parse(text.String())
	if err != nil {
		t.Fatal(err)
	}
	out, err := table.New(list, revision, at)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestPublishesAreRemembered(t *testing.T) {
	now := time.Now()
	var p console.Publishes
	first := tableOf(t, 2, 7, now.Add(-3*time.Second))
	p.Add(first, now.Add(-time.Second), false)
	p.Add(tableOf(t, 3, 8, now.Add(-time.Hour)), now, true)
	all := p.Since(now.Add(-time.Minute))
	if len(all) != 2 || all[0].Routes != 2 || all[0].Revision != 7 || all[0].Took != 2*time.Second || all[0].Digest != first.Digest() || all[1].Routes != 3 || all[1].Took >= 0 {
		t.Fatalf("%+v", all)
	}
	if later := p.Since(now.Add(-500 * time.Millisecond)); len(later) != 1 || later[0].Routes != 3 {
		t.Errorf("since: %+v", later)
	}
	half, most := 0.5, 1.25
	p.Reached([]fleet.Publish{
		{Digest: first.Digest(), Revision: 7, Time: now.Add(-time.Second), Half: &half, Most: &most},
		{Digest: table.Digest{9}, Half: &half},
	})
	if one := p.Since(now.Add(-time.Minute))[0]; one.Half != 500*time.Millisecond || one.Most != 1250*time.Millisecond || one.All != 0 {
		t.Errorf("reached: %+v", one)
	}
	// The same table an hour earlier was a different publication.
	p.Reached([]fleet.Publish{{Digest: first.Digest(), Revision: 7, Time: now.Add(-time.Hour), Half: &most}})
	if one := p.Since(now.Add(-time.Minute))[0]; one.Half != 500*time.Millisecond {
		t.Errorf("a publish has the time of another one: %+v", one)
	}
}

func TestPublishesAreBounded(t *testing.T) {
	now, one := time.Now(), tableOf(t, 1, 1, time.Now())
	var p console.Publishes
	const added = 10_000
	for i := range added {
		p.Add(one, now.Add(time.Duration(i)*time.Millisecond), false)
	}
	all := p.Since(now.Add(-time.Hour))
	if len(all) != 4096 {
		t.Fatalf("%d are remembered", len(all))
	}
	for i, have := range all {
		if want := now.Add(time.Duration(added-len(all)+i) * time.Millisecond); !have.Time.Equal(want) {
			t.Fatalf("number %d is of %v, want %v: the oldest go, and the order stays", i, have.Time, want)
		}
	}
}

func TestChartsShowThePublishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		cfg := w.config()
		cfg.Publishes = &console.Publishes{}
		h := handler(cfg)
		wants(t, get(t, h, "/"), "No table yet.", "No publish lately.", "Nothing is known of a fleet.")
		read := time.Now()
		time.Sleep(20 * time.Millisecond)
		cfg.Publishes.Add(tableOf(t, 3, 1, read), time.Now(), false)
		time.Sleep(time.Hour)
		read = time.Now()
		time.Sleep(3 * time.Second)
		second := tableOf(t, 5, 2, read)
		cfg.Publishes.Add(second, time.Now(), false)
		seconds := 2.5
		w.view.Publishes = []fleet.Publish{{Digest: second.Digest(), Revision: 2, Time: time.Now(), Most: &seconds, All: &seconds}}
		w.view.Total = 1
		time.Sleep(30 * time.Minute)
		body := get(t, h, "/")
		wants(t, body, "Routes now 5; between 3 and 5 in the last 1\u00a0h\u00a030\u00a0min.", "Time to publish: the last one took 3.0\u00a0s, the longest in the last 1\u00a0h\u00a030\u00a0min 3.0\u00a0s.",
			"Time to 99 % of the fleet: the last one took 2.5\u00a0s", `class="line"`, `<td class="n">&#43;2</td>`, "reached all live clients in 2.5\u00a0s")
		// Two thirds of the shown period had passed when the second table came.
		if !strings.Contains(body, "H213V") {
			t.Errorf("the step is not where it belongs:\n%s", body)
		}
	})
}

// TestChartsOfManyPublishesStaySmall: a cluster that changes all the time fills the ring.
func TestChartsOfManyPublishesStaySmall(t *testing.T) {
	cfg := newWorld().config()
	cfg.Publishes = &console.Publishes{}
	now := time.Now()
	few, many := tableOf(t, 2, 1, now), tableOf(t, 9, 2, now)
	for i := range 4096 {
		one := few
		if i%2 == 0 {
			one = many
		}
		cfg.Publishes.Add(one, now.Add(time.Duration(i-4096)*5*time.Second), false)
	}
	if body := get(t, handler(cfg), "/"); len(body) > 120_000 {
		t.Errorf("the page has %d bytes", len(body))
	}
}

// BenchmarkOverview renders the overview of a server with 5,000 problems, 1,000 clients and a full ring.
func BenchmarkOverview(b *testing.B) {
	w := newWorld()
	now := time.Now()
	for i := range 5000 {
		w.problems = append(w.problems, problem(fmt.Sprint("ns", i%100), fmt.Sprint("object", i), rules.Error, "no such thing"))
	}
	for i := range 1000 {
		w.view.Clients = append(w.view.Clients, fleet.Client{ID: fmt.Sprint("client-", i), State: fleet.Behind})
	}
	cfg := w.config()
	cfg.Publishes = &console.Publishes{}
	one, err := table.New(nil, 1, now)
	if err != nil {
		b.Fatal(err)
	}
	for i := range 4096 {
		cfg.Publishes.Add(one, now.Add(time.Duration(i-4096)*5*time.Second), false)
	}
	h := handler(cfg)
	b.ReportAllocs()
	for b.Loop() {
		if status, _, _ := answer(h, loopback("GET", "/", nil)); status != 200 {
			b.Fatal(status)
		}
	}
}
