package server

import (
	"errors"
	"fmt"
	"io"
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
type requestFilter struct {
	request  func(*exchange)
	response func(*exchange)
}

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

// newRequestFilter makes a filter from its arguments.
type newRequestFilter struct {
	name string
	from func(args []any) (requestFilter, error)
}

// supportedRequestFilters returns the filters in the order in which an error lists them.
func supportedRequestFilters() []newRequestFilter {
	return []newRequestFilter{
		{"status", statusFilter},
		{"inlineContent", inlineContentFilter},
		{"setResponseHeader", headerFilter(2, func(h http.Header, args []string) { h.Set(args[0], args[1]) })},
		{"appendResponseHeader", headerFilter(2, func(h http.Header, args []string) { h.Add(args[0], args[1]) })},
		{"dropResponseHeader", headerFilter(1, func(h http.Header, args []string) { h.Del(args[0]) })},
		{"mtlsAuthn", mtlsAuthnFilter},
		{"mtlsCN", mtlsCNFilter},
	}
}

func newRequestFilters(chain []*eskip.Filter) (requestFilters, error) {
	var filters requestFilters
	supported := supportedRequestFilters()
	for _, f := range chain {
		i := slices.IndexFunc(supported, func(s newRequestFilter) bool { return s.name == f.Name })
		if i < 0 {
			var names []string
			for _, s := range supported {
				names = append(names, s.name)
			}
			return nil, fmt.Errorf("failed to create filter chain: failed to get filter for routeserver %q: available are %s "+
				"(-route-server-filters)", f.Name, strings.Join(names, ", "))
		}
		made, err := supported[i].from(f.Args)
		if err != nil {
			return nil, fmt.Errorf("failed to create filter chain: failed to create filter %q for routeserver: %w "+
				"(-route-server-filters)", f.Name, err)
		}
		filters = append(filters, made)
	}
	return filters, nil
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

// statusFilter sets the status of an answer that another filter of the chain serves. It serves no answer itself.
func statusFilter(args []any) (requestFilter, error) {
	if len(args) != 1 {
		return requestFilter{}, errors.New("arguments must be one number")
	}
	n, ok := args[0].(float64)
	code := int(n)
	if !ok || float64(code) != n || code < 200 || code > 599 {
		return requestFilter{}, fmt.Errorf("status %v: must be an integer from 200 to 599", args[0])
	}
	return requestFilter{response: func(x *exchange) {
		if x.served != nil {
			x.served.status = code
		}
	}}, nil
}

// inlineContentFilter serves a text, with the given content type, if any.
func inlineContentFilter(args []any) (requestFilter, error) {
	texts, err := stringArgs(args, 1, 2)
	if err != nil {
		return requestFilter{}, err
	}
	if len(texts) == 1 {
		texts = append(texts, http.DetectContentType([]byte(texts[0])))
	}
	return requestFilter{request: func(x *exchange) { x.served = &servedResponse{http.StatusOK, texts[1], texts[0]} }}, nil
}

// headerFilter changes a header of every response. It has that many arguments.
func headerFilter(want int, change func(http.Header, []string)) func([]any) (requestFilter, error) {
	return func(args []any) (requestFilter, error) {
		texts, err := stringArgs(args, want, want)
		return requestFilter{response: func(x *exchange) { change(x.header, texts) }}, err
	}
}

// mtlsAuthnFilter rejects clients without a verified certificate.
func mtlsAuthnFilter(args []any) (requestFilter, error) {
	if len(args) != 0 {
		return requestFilter{}, errors.New("must have no arguments")
	}
	return requestFilter{request: func(x *exchange) {
		if !verified(x.r) {
			x.refuse(http.StatusUnauthorized, "no verified client certificate\n")
		}
	}}, nil
}

// mtlsCNFilter rejects clients whose verified certificate has none of the common names.
func mtlsCNFilter(args []any) (requestFilter, error) {
	names, err := stringArgs(args, 1, len(args))
	return requestFilter{request: func(x *exchange) {
		if !verified(x.r) || !slices.Contains(names, x.r.TLS.VerifiedChains[0][0].Subject.CommonName) {
			x.refuse(http.StatusForbidden, "client certificate has another common name\n")
		}
	}}, err
}

func verified(r *http.Request) bool {
	return r.TLS != nil && len(r.TLS.VerifiedChains) > 0 && len(r.TLS.VerifiedChains[0]) > 0
}

func (x *exchange) refuse(status int, text string) {
	x.served = &servedResponse{status, "text/plain; charset=utf-8", text}
}

// stringArgs requires between least and most arguments, all strings.
func stringArgs(args []any, least, most int) ([]string, error) {
	if len(args) < least || len(args) > most {
		want := fmt.Sprintf("%d to %d strings", least, most)
		switch {
		case most < least:
			want = "at least one string"
		case most == least:
			want = fmt.Sprintf("%d strings", most)
		}
		return nil, fmt.Errorf("%d arguments: must be %s", len(args), want)
	}
	texts := make([]string, len(args))
	for i, a := range args {
		s, ok := a.(string)
		if !ok {
			return nil, fmt.Errorf("argument %d is %v: must be a string", i+1, a)
		}
		texts[i] = s
	}
	return texts, nil
}
