package shadowdiff_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/routesrv/routesrv/shadowdiff"
)

func TestMetrics(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := shadowdiff.NewMetrics(reg)
	problems, err := testutil.GatherAndLint(reg)
	if err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v %v", problems, err)
	}
	w := watch(t, 0)
	for _, b := range []string{with, with, lacking, lacking, lacking} {
		o := w.compare(3, with, b)
		m.Observe(&o)
		if got := testutil.ToFloat64(m.Clean); o.Comparisons == 2 && got != 3 {
			t.Errorf("dataplane_shadow_clean_seconds = %v, want 3", got)
		}
	}
	m.Failed()
	if err := testutil.GatherAndCompare(reg, strings.NewReader(exposition)); err != nil {
		t.Error(err)
	}
	shadowdiff.NewMetrics(nil)
}

// exposition is the state after two comparisons without differences, three with one, and one that failed.
const exposition = `
# HELP dataplane_shadow_clean_seconds Time without a difference that counts, up to the last comparison.
# TYPE dataplane_shadow_clean_seconds gauge
dataplane_shadow_clean_seconds 0
# HELP dataplane_shadow_comparisons_total Comparisons: same, pending (the difference may be skew), different or error (a table was not available).
# TYPE dataplane_shadow_comparisons_total counter
dataplane_shadow_comparisons_total{result="different"} 1
dataplane_shadow_comparisons_total{result="error"} 1
dataplane_shadow_comparisons_total{result="pending"} 2
dataplane_shadow_comparisons_total{result="same"} 2
# HELP dataplane_shadow_routes Routes that differ for longer than skew explains: missing, extra or changed.
# TYPE dataplane_shadow_routes gauge
dataplane_shadow_routes{kind="changed"} 0
dataplane_shadow_routes{kind="extra"} 0
dataplane_shadow_routes{kind="missing"} 1
`
