package server

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/eskip"
)

// requestFilters is the filter chain for requests to the main listener. It supports the filters of the reference that make sense
// in front of a route server. Any other name stops the start, since skipping a filter could remove a protection.
type requestFilters []requestFilter

// requestFilter handles a request before the handler and a response after it. Both may be nil. A request function that serves an
// answer ends the chain: the handler is not called.
type requestFilter struct {
	request  func(*exchange)
	response func(*exchange)
}

// exchange is one request passing through the chain.
type exchange struct {
	r      *http.Request
	header http.Header // of the response, shared with the handler
	served *servedResponse
}

// servedResponse is an answer of a filter instead of the handler.
type servedResponse struct {
	status int
	body   string
	header http.Header // added to the headers of the response
}

// supportedRequestFilters is listed by the error about an unsupported filter.
var supportedRequestFilters = []string{
	"status", "inlineContent", "setResponseHeader", "appendResponseHeader", "dropResponseHeader", "mtlsAuthn", "mtlsCN",
}

func newRequestFilters(chain []*eskip.Filter) (requestFilters, error) {
	var filters requestFilters
	for _, f := range chain {
		rf, err := newRequestFilter(f)
		if err != nil {
			return nil, fmt.Errorf("failed to create filter chain: %w (-route-server-filters)", err)
		}
		filters = append(filters, rf)
	}
	return filters, nil
}

func newRequestFilter(f *eskip.Filter) (requestFilter, error) {
	var rf requestFilter
	var err error
	switch f.Name {
	case "status":
		rf, err = statusFilter(f.Args)
	case "inlineContent":
		rf, err = inlineContentFilter(f.Args)
	case "setResponseHeader", "appendResponseHeader", "dropResponseHeader":
		rf, err = headerFilter(f.Name, f.Args)
	case "mtlsAuthn":
		rf, err = mtlsAuthnFilter(f.Args)
	case "mtlsCN":
		rf, err = mtlsCNFilter(f.Args)
	default:
		return rf, fmt.Errorf("failed to get filter for routeserver %q: available are %s", f.Name,
			strings.Join(supportedRequestFilters, ", "))
	}
	if err != nil {
		return rf, fmt.Errorf("failed to create filter %q for routeserver: %w", f.Name, err)
	}
	return rf, nil
}

// wrap returns a handler that runs the chain around next.
func (filters requestFilters) wrap(next http.Handler) http.Handler {
	if len(filters) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{r: r, header: w.Header()}
		ran := filters.request(x)
		for _, f := range slices.Backward(filters[:ran]) {
			if f.response != nil {
				f.response(x)
			}
		}
		if x.served == nil {
			next.ServeHTTP(w, r)
			return
		}
		for k, vs := range x.served.header {
			for _, v := range vs {
				w.Header().Add(k, v)
			}
		}
		w.WriteHeader(x.served.status)
		if r.Method != http.MethodHead {
			fmt.Fprint(w, x.served.body)
		}
	})
}

// request runs the chain until a filter serves an answer. It returns how many filters ran.
func (filters requestFilters) request(x *exchange) int {
	for i, f := range filters {
		if f.request != nil {
			f.request(x)
		}
		if x.served != nil {
			return i + 1
		}
	}
	return len(filters)
}
