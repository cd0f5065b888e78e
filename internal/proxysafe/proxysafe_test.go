package proxysafe_test

import (
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/internal/proxysafe"
)

func TestFiltersThatEndTheProcessOfAProxy(t *testing.T) {
	for _, c := range []struct {
		filters string
		safe    bool
	}{
		{``, true},
		{`status(200)`, true},
		{`admissionControl("a", "active", "1s", 5, 10, 0.95, 0.9, 0.5)`, true},
		{`admissionControl("a", "active", "1ns", 5, 10, 0.95, 0.9, 0.5)`, true},
		{`admissionControl("a", "active", ".5us", 5, 10, 0.95, 0.9, 0.5)`, true},
		{`admissionControl("a", "active", "", 5, 10, 0.95, 0.9, 0.5)`, true}, // no duration: a proxy drops the route
		{`admissionControl("a", "active", "1", 5, 10, 0.95, 0.9, 0.5)`, true},
		{`admissionControl("a", "active", "x", 5, 10, 0.95, 0.9, 0.5)`, true},
		{`admissionControl("a", "active", " 0s", 5, 10, 0.95, 0.9, 0.5)`, true},
		{`admissionControl("a", "active", "9999999h0s0", 5, 10, 0.95, 0.9, 0.5)`, true},
		{`admissionControl("a", "active", 1, 5, 10, 0.95, 0.9, 0.5)`, true},
		{`admissionControl("a", "active")`, true},
		{`AdmissionControl("a", "active", "0s", 5, 10, 0.95, 0.9, 0.5)`, true}, // no filter has this name
		{`f("admissionControl", "active", "0s")`, true},

		{`admissionControl("a", "active", "0s", 5, 10, 0.95, 0.9, 0.5)`, false},
		{`admissionControl("a", "inactive", "0", 5, 10, 0.95, 0.9, 0.5)`, false},
		{`admissionControl("a", "logInactive", "-0", 5, 10, 0.95, 0.9, 0.5)`, false},
		{`admissionControl("a", "active", "+0", 5, 10, 0.95, 0.9, 0.5)`, false},
		{`admissionControl("a", "active", "-1s", 5, 10, 0.95, 0.9, 0.5)`, false},
		{`admissionControl("a", "active", "-1h2m3s", 5, 10, 0.95, 0.9, 0.5)`, false},
		{`admissionControl("a", "active", "0h0m0.000s", 5, 10, 0.95, 0.9, 0.5)`, false},
		{`admissionControl("a", "active", "0.1ns", 5, 10, 0.95, 0.9, 0.5)`, false}, // below the smallest duration
		{`admissionControl("a", "active", "0.0001us", 5, 10, 0.95, 0.9, 0.5)`, false},
		{`admissionControl("a", "active", /0s/, 5, 10, 0.95, 0.9, 0.5)`, false},
		{`admissionControl("a", "active", 0, 5, 10, 0.95, 0.9, 0.5)`, false},
		{`admissionControl("a", "active", -5, 5, 10, 0.95, 0.9, 0.5)`, false},
		{`admissionControl("a", "active", 0.5, 5, 10, 0.95, 0.9, 0.5)`, false},
		{`admissionControl("a", "active", "0s")`, false},
		{`status(200) -> admissionControl("a", "active", "0s", 5, 10, 0.95, 0.9, 0.5) -> status(300)`, false},
		{`admissionControl("a", "active", "1s", 5) -> admissionControl("a", "active", "0s", 5)`, false},
	} {
		r := &eskip.Route{Filters: eskip.MustParseFilters(c.filters)}
		err := proxysafe.Check(r)
		if (err == nil) != c.safe {
			t.Errorf("%s: got %v, want safe to be %t", c.filters, err, c.safe)
		}
		if err != nil && !strings.Contains(err.Error(), "admissionControl(") {
			t.Errorf("%v does not name the filter", err)
		}
		// A table is parsed before it is checked: a printed route gets the same verdict.
		if back := eskip.MustParse("* -> " + strings.TrimPrefix(r.String(), "* -> ")); (proxysafe.Check(back[0]) == nil) != c.safe {
			t.Errorf("%s is judged in another way after it was printed", c.filters)
		}
	}
}

func TestArgumentsThatProgramsMake(t *testing.T) {
	for _, c := range []struct {
		arg  any
		safe bool
	}{{0, false}, {-1, false}, {1, true}, {time.Duration(0), false}, {time.Second, true}, {nil, true}, {true, true}} {
		err := proxysafe.CheckFilters([]*eskip.Filter{{Name: "admissionControl", Args: []any{"a", "active", c.arg}}})
		if (err == nil) != c.safe {
			t.Errorf("%v (%T): got %v, want safe to be %t", c.arg, c.arg, err, c.safe)
		}
	}
}
