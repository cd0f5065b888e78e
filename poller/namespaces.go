package poller

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/compile/rules"
)

// namespaces counts problems for the namespaces with the most problems: users who create namespaces must not be able to create
// series without limit.
type namespaces struct {
	most   int
	counts gauges // by namespace and reason
}

func newNamespaces(most int, reg prometheus.Registerer) *namespaces {
	n := &namespaces{most: most, counts: gauges{vec: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "routesrv_namespace_problems",
		Help: "Problems of objects in the last read, by namespace and reason, for the namespaces with the most problems " +
			"(--problem-namespaces); all others together have an empty namespace.",
	}, []string{"namespace", "reason"})}}
	reg.MustRegister(n.counts.vec)
	return n
}

// show sets the series.
func (n *namespaces) show(problems []rules.Problem) {
	totals := make(map[string]int)
	for i := range problems {
		if ns := problems[i].Owner.Namespace; ns != "" {
			totals[ns]++
		}
	}
	names := slices.SortedFunc(maps.Keys(totals), func(a, b string) int {
		return cmp.Or(cmp.Compare(totals[b], totals[a]), strings.Compare(a, b))
	})
	own := make(map[string]bool, n.most)
	for _, name := range names[:min(n.most, len(names))] {
		own[name] = true
	}
	counts := make(map[[2]string]int)
	for i := range problems {
		ns := problems[i].Owner.Namespace
		if !own[ns] {
			ns = ""
		}
		counts[[2]string{ns, string(problems[i].Reason)}]++
	}
	n.counts.show(counts)
}
