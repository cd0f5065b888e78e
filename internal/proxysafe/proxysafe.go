// Package proxysafe knows the routes that end the process of a proxy.
//
// A few filters take arguments that pass every check of a proxy and then panic outside of any request: the process ends as
// soon as the route is applied, on every instance, and again after each restart. Whoever gives a table to proxies refuses
// such routes: the compiler when it makes them, and a data plane when it fetches a table from somebody else.
//
// The package is pure, and its functions are safe for concurrent use.
package proxysafe

import (
	"fmt"
	"time"

	"github.com/routesrv/routesrv/eskip"
)

// dangerous are the filters that can end a process, with what is wrong with their arguments; "" if nothing is.
var dangerous = map[string]func(args []any) string{
	"admissionControl": admissionControl,
}

// Check returns an error that names the filter if the route would end the process of a proxy, and nil otherwise. The
// backend and the other filters of the route make no difference: proxies create the filters of all routes.
func Check(r *eskip.Route) error { return CheckFilters(r.Filters) }

// CheckFilters is [Check] for a chain of filters that no route has yet.
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

// admissionControl starts a ticker with its third argument, and a ticker panics unless its duration is above zero. The
// other arguments are not looked at: whether a version of the proxy refuses them is nothing to rely on.
func admissionControl(args []any) string {
	const position = 2
	if len(args) <= position {
		return ""
	}
	switch v := args[position].(type) {
	case float64:
		// A proxy wants a text here and drops the route. One that took a number would cut its fraction.
		if !(v >= 1) {
			return fmt.Sprintf("the duration %v is not above zero", v)
		}
	case int:
		if v < 1 {
			return fmt.Sprintf("the duration %d is not above zero", v)
		}
	default:
		// A proxy drops the route of a text that is no duration. Fractions of a nanosecond are cut: "0.1ns" is zero. What a
		// program puts here is printed as a text.
		text := fmt.Sprint(v)
		if d, err := time.ParseDuration(text); err == nil && d <= 0 {
			return fmt.Sprintf("the duration %q is not above zero", text)
		}
	}
	return ""
}
