package publish_test

import (
	"errors"
	"testing"
	"time"

	"github.com/routesrv/routesrv/internal/api"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/publish"
)

// TestDeclaredOrders: they begin and end with what reads show, are recorded once, survive a restart, and are beside the commands of operators.
func TestDeclaredOrders(t *testing.T) {
	var orders []publish.Order
	var decisions []api.Decision
	cfg := publish.Config{
		File:     publish.LastKnownGood(t.TempDir()),
		Declared: func(*kube.Snapshot, time.Time) []publish.Order { return orders },
		Decided:  func(d api.Decision) { decisions = append(decisions, d) },
	}
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	freeze := publish.Order{Freeze: true, Scope: shop, Until: until, By: "ConfigMap routesrv/steering", Why: "sale", Declared: "routesrv/steering/sale"}
	c := newCluster(t, cfg)
	c.filter("shop/app-00", `setPath("/old")`)
	c.read()
	old := c.ingresses["shop/app-00"]

	orders = []publish.Order{freeze}
	for range 3 {
		c.read()
	}
	if len(decisions) != 1 || decisions[0].What != api.DecidedSteered || decisions[0].By != "ConfigMap routesrv/steering" {
		t.Fatalf("decisions: %+v", decisions)
	}
	c.filter("shop/app-00", `setPath("/new")`)
	c.read()
	c.serves("frozen", "/old", "!/new")
	if err := c.publisher.Steer(publish.Order{Release: true, Scope: shop}); !errors.Is(err, publish.ErrNotSteered) {
		t.Errorf("a command ends what a ConfigMap declares: %v", err)
	}
	since := c.publisher.Kept()[0].Since

	// The command of an operator about the same objects is beside it.
	c.steer(publish.Order{Freeze: true, Scope: shop, Until: until, By: "ann"})
	if all, _ := c.publisher.Orders(); len(all) != 2 {
		t.Errorf("orders: %+v", all)
	}
	c.steer(publish.Order{Release: true, Scope: shop})
	c.serves("still frozen", "/old", "!/new")

	c.publisher.Flush()
	c.start(cfg)
	c.read()
	c.serves("after a restart", "/old", "!/new")
	if kept := c.publisher.Kept(); len(kept) != 1 || !kept[0].Since.Equal(since) {
		t.Errorf("kept since %v: %+v", since, kept)
	}

	decisions, orders = nil, nil
	c.read()
	c.serves("removed from the ConfigMap", "/new", "!/old")
	if len(decisions) != 1 || decisions[0].What != api.DecidedReleased || decisions[0].By != "ConfigMap routesrv/steering" {
		t.Errorf("decisions: %+v", decisions)
	}

	pin := publish.Order{Scope: scopeOf(ingressRef("app-00")), Until: until, Declared: "routesrv/steering/pin", Pins: []*publish.Kept{publish.Pin(ingressRef("app-00"), old, "as of version 12")}}
	orders = []publish.Order{pin}
	c.read()
	c.serves("pinned", "/old", "!/new")
	orders = nil
	c.read()
	c.serves("not pinned", "/new", "!/old")
	c.publisher.Flush()
}
