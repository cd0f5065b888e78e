// Package proxysafe detects routes that crash a proxy.
//
// A few filters accept arguments that pass every check of a proxy and then panic outside of any request: the process ends as soon
// as the route is applied, on every instance, and again after each restart. Therefore the compiler refuses such routes, and a
// data plane refuses them in fetched tables.
//
// The package is pure, and its functions are safe for concurrent use.
package proxysafe

import (
	"fmt"
	"time"

	"github.com/routesrv/routesrv/eskip"
)

// dangerous maps filters that can crash a proxy to a check of their arguments, which returns the mistake or "".
var dangerous = map[string]func(args []any) string{
	"admissionControl": admissionControl,
}

// Check returns an error that names the filter if the route would crash a proxy, and nil otherwise. The backend and the other
// filters of the route do not matter: proxies create the filters of all routes.
func Check(r *eskip.Route) error { return CheckFilters(r.Filters) }

// CheckFilters is [Check] for a filter chain without a route.
func CheckFilters(filters []*eskip.Filter) error {
	for _, f := range filters {
		check, ok := dangerous[f.Name]
		if !ok {
			continue
		}
		if wrong := check(f.Args); wrong != "" {
			return fmt.Errorf("filter %s: %s; correct the argument", f, wrong)
		}
	}
	return nil
}

// admissionControl starts a ticker with its third argument, and a ticker panics unless its duration is above zero. The other
// arguments are not checked: some version of the proxy may accept invalid ones.
func admissionControl(args []any) string {
	const position = 2
	if len(args) <= position {
		return ""
	}
	switch v := args[position].(type) {
	case float64:
		// A proxy requires a text here and drops the route. A version that accepted numbers would truncate the fraction.
		if !(v >= 1) {
			return fmt.Sprintf("the duration %v is not above zero", v)
		}
	case int:
		if v < 1 {
			return fmt.Sprintf("the duration %d is not above zero", v)
		}
	default:
		// A proxy drops a route with a text that is not a duration. Fractions of a nanosecond are truncated: "0.1ns" is zero.
		// Other values from programs are printed as text.
		text := fmt.Sprint(v)
		if d, err := time.ParseDuration(text); err == nil && d <= 0 {
			return fmt.Sprintf("the duration %q is not above zero", text)
		}
	}
	return ""
}
