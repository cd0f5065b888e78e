package server

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/kube"
)

func TestDeclaredOrders(t *testing.T) {
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct{ entry, scope, problem string }{
		"namespace":    {"order: freeze\nnamespace: shop\nuntil: 2026-11-28T20:00:00Z\nwhy: sale", "namespace shop", ""},
		"object":       {"order: freeze\nobject: Ingress/shop/cart\nuntil: '2026-11-25T20:00:00Z'", "Ingress shop/cart", ""},
		"all":          {"order: freeze\nall: true\nuntil: release\nwhy: migration", "all objects", ""},
		"over":         {"order: freeze\nall: true\nuntil: 2026-11-25T12:00:00Z", "", ""},
		"no end":       {"order: freeze\nall: true", "", "want until"},
		"no reason":    {"order: freeze\nall: true\nuntil: release", "", "needs a reason"},
		"too long":     {"order: freeze\nall: true\nuntil: 2026-12-25T12:00:00Z", "", "within the next"},
		"no time":      {"order: freeze\nall: true\nuntil: tomorrow", "", "want a time"},
		"no scope":     {"order: freeze\nuntil: 2026-11-28T20:00:00Z", "", "want one of namespace"},
		"two scopes":   {"order: freeze\nall: true\nnamespace: shop\nuntil: 2026-11-28T20:00:00Z", "", "want one of namespace"},
		"other name":   {"order: freeze\nnamespaces: shop\nuntil: 2026-11-28T20:00:00Z", "", "namespaces"},
		"release":      {"order: release\nnamespace: shop", "", "remove the entry"},
		"no order":     {"order: stop\nnamespace: shop\nuntil: 2026-11-28T20:00:00Z", "", `order "stop"`},
		"frozen pin":   {"order: freeze\npin: Ingress/shop/cart@ab\nuntil: 2026-11-28T20:00:00Z", "", "has a pin"},
		"entry":        {"order: rollback\nnamespace: shop\nuntil: 2026-11-28T20:00:00Z", "", "has a pin"},
		"not YAML":     {"freeze shop", "", "want YAML"},
		"twice":        {"order: freeze\nall: true\nall: true\nuntil: 2026-11-28T20:00:00Z", "", "want YAML"},
		"a list":       {"order: [freeze]", "", "want YAML"},
		"long":         {strings.Repeat("#", 1<<20), "", "limit"},
		"control text": {"order: freeze\nall: true\nuntil: 2026-11-28T20:00:00Z\nwhy: \"a\\u0007\"", "", "why"},
	} {
		t.Run(name, func(t *testing.T) {
			d := &declared{s: &Server{log: slog.New(slog.DiscardHandler)}}
			m := &kube.ConfigMap{Namespace: "routesrv", Name: "steering", Data: map[string]string{"sale": c.entry}}
			orders := d.orders(&kube.Snapshot{Orders: []*kube.ConfigMap{m}}, now)
			problems := d.problems()
			switch {
			case (c.scope == "") != (len(orders) == 0) || (c.problem == "") != (len(problems) == 0):
				t.Errorf("orders %+v, problems %+v", orders, problems)
			case c.scope != "" && (orders[0].Scope.String() != c.scope || orders[0].By != "ConfigMap routesrv/steering" || orders[0].Declared != "routesrv/steering/sale"):
				t.Errorf("order %+v", orders[0])
			case c.problem != "" && (!strings.Contains(problems[0].Message, c.problem) || !strings.HasPrefix(problems[0].Message, `entry "sale": `) || problems[0].Owner != m.Ref()):
				t.Errorf("problem %+v", problems[0])
			}
		})
	}
}
