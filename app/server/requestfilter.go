package server

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/routesrv/routesrv/eskip"
)

// requestFilters is the filter chain for requests to the main listener. It supports the filters of the reference that make sense
// in front of a route server. Any other name stops the start, since skipping a filter could remove a protection.
type requestFilters []requestFilter

// requestFilter handles a request before the handler and a response after it. Both may be nil. A request function that serves an
// answer ends the chain: the handler is not called.
type requestFilter struct{ request, response func(*exchange) }

// exchange is one request passing through the chain.
type exchange struct {
	r      *http.Request
	header http.Header     // of the response, shared with the handler
	served *servedResponse // nil while no filter has answered
}

// servedResponse is an answer of a filter instead of the handler.
type servedResponse struct {
	status            int
	contentType, body string
}

func newRequestFilters(chain []*eskip.Filter) (filters requestFilters, err error) {
	arguments := map[string]string{
		"status": "one integer from 200 to 599", "inlineContent": "one or two strings", "setResponseHeader": "two strings", "appendResponseHeader": "two strings",
		"dropResponseHeader": "one string", "mtlsAuthn": "none", "mtlsCN": "at least one string",
	}
	for _, f := range chain {
		want, known := arguments[f.Name]
		if !known {
			return nil, fmt.Errorf("failed to create filter chain: failed to get filter for routeserver %q: available are %s "+
				"(-route-server-filters)", f.Name, strings.Join(slices.Sorted(maps.Keys(arguments)), ", "))
		}
		made, ok := newRequestFilter(f.Name, f.Args)
		if !ok {
			return nil, fmt.Errorf("failed to create filter chain: failed to create filter %q for routeserver: the arguments must be %s "+
				"(-route-server-filters)", f.Name, want)
		}
		filters = append(filters, made)
	}
	return filters, nil
}

// newRequestFilter makes a filter. ok is false if the arguments are invalid.
func newRequestFilter(name string, args []any) (f requestFilter, ok bool) {
	n := len(args)
	if name == "status" {
		return statusFilter(args)
	}
	texts := make([]string, n, n+1)
	for i, a := range args {
		if texts[i], ok = a.(string); !ok {
			return f, false
		}
	}
	switch {
	case name == "inlineContent" && (n == 1 || n == 2):
		if n == 1 {
			texts = append(texts, http.DetectContentType([]byte(texts[0])))
		}
		f.request = func(x *exchange) { x.served = &servedResponse{http.StatusOK, texts[1], texts[0]} }
	case name == "setResponseHeader" && n == 2:
		f.response = func(x *exchange) { x.header.Set(texts[0], texts[1]) }
	case name == "appendResponseHeader" && n == 2:
		f.response = func(x *exchange) { x.header.Add(texts[0], texts[1]) }
	case name == "dropResponseHeader" && n == 1:
		f.response = func(x *exchange) { x.header.Del(texts[0]) }
	case name == "mtlsAuthn" && n == 0:
		f.request = func(x *exchange) {
			if !verified(x.r) {
				x.refuse(http.StatusUnauthorized, "no verified client certificate\n")
			}
		}
	case name == "mtlsCN" && n > 0:
		f.request = func(x *exchange) {
			if !verified(x.r) || !slices.Contains(texts, x.r.TLS.VerifiedChains[0][0].Subject.CommonName) {
				x.refuse(http.StatusForbidden, "client certificate has another common name\n")
			}
		}
	default:
		return f, false
	}
	return f, true
}

// statusFilter sets the status of an answer that another filter of the chain serves. It serves no answer itself.
func statusFilter(args []any) (f requestFilter, ok bool) {
	if len(args) != 1 {
		return f, false
	}
	n, ok := args[0].(float64)
	code := int(n)
	f.response = func(x *exchange) {
		if x.served != nil {
			x.served.status = code
		}
	}
	return f, ok && float64(code) == n && code >= 200 && code <= 599
}

func verified(r *http.Request) bool {
	return r.TLS != nil && len(r.TLS.VerifiedChains) > 0 && len(r.TLS.VerifiedChains[0]) > 0
}

func (x *exchange) refuse(status int, text string) {
	x.served = &servedResponse{status, "text/plain; charset=utf-8", text}
}

// wrap returns a handler that runs the chain around next.
func (filters requestFilters) wrap(next http.Handler) http.Handler {
	if len(filters) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{r: r, header: w.Header()}
		ran := 0
		for ; ran < len(filters) && x.served == nil; ran++ {
			if f := filters[ran]; f.request != nil {
				f.request(x)
			}
		}
		for _, f := range slices.Backward(filters[:ran]) {
			if f.response != nil {
				f.response(x)
			}
		}
		if x.served == nil {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Add("Content-Type", x.served.contentType)
		w.Header().Add("Content-Length", strconv.Itoa(len(x.served.body)))
		w.WriteHeader(x.served.status)
		if r.Method != http.MethodHead {
			_, _ = io.WriteString(w, x.served.body)
		}
	})
}
