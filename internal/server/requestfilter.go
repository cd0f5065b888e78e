package server

import (
	"errors"
	"fmt"
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

// statusFilter sets the status of an answer that another filter of the chain serves. It serves no answer itself.
func statusFilter(args []any) (requestFilter, error) {
	if len(args) != 1 {
		return requestFilter{}, errors.New("want one number")
	}
	n, ok := args[0].(float64)
	code := int(n)
	if !ok || float64(code) != n || code < 200 || code > 599 {
		return requestFilter{}, fmt.Errorf("status %v: want an integer from 200 to 599", args[0])
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
	body := texts[0]
	contentType := http.DetectContentType([]byte(body))
	if len(texts) == 2 {
		contentType = texts[1]
	}
	return requestFilter{request: func(x *exchange) {
		x.served = &servedResponse{status: http.StatusOK, body: body, header: http.Header{
			"Content-Type":   {contentType},
			"Content-Length": {strconv.Itoa(len(body))},
		}}
	}}, nil
}

// headerFilter changes a header of every response.
func headerFilter(name string, args []any) (requestFilter, error) {
	want := 2
	if name == "dropResponseHeader" {
		want = 1
	}
	texts, err := stringArgs(args, want, want)
	if err != nil {
		return requestFilter{}, err
	}
	return requestFilter{response: func(x *exchange) {
		switch name {
		case "setResponseHeader":
			x.header.Set(texts[0], texts[1])
		case "appendResponseHeader":
			x.header.Add(texts[0], texts[1])
		case "dropResponseHeader":
			x.header.Del(texts[0])
		}
	}}, nil
}

// mtlsAuthnFilter rejects clients without a verified certificate.
func mtlsAuthnFilter(args []any) (requestFilter, error) {
	if len(args) != 0 {
		return requestFilter{}, errors.New("want no arguments")
	}
	return requestFilter{request: func(x *exchange) {
		if !verified(x.r) {
			x.served = refuse(http.StatusUnauthorized, "no verified client certificate\n")
		}
	}}, nil
}

// mtlsCNFilter rejects clients whose verified certificate has none of the common names.
func mtlsCNFilter(args []any) (requestFilter, error) {
	names, err := stringArgs(args, 1, len(args))
	if err != nil {
		return requestFilter{}, err
	}
	return requestFilter{request: func(x *exchange) {
		if !verified(x.r) || !slices.Contains(names, x.r.TLS.VerifiedChains[0][0].Subject.CommonName) {
			x.served = refuse(http.StatusForbidden, "client certificate has another common name\n")
		}
	}}, nil
}

func verified(r *http.Request) bool {
	return r.TLS != nil && len(r.TLS.VerifiedChains) > 0 && len(r.TLS.VerifiedChains[0]) > 0
}

func refuse(status int, text string) *servedResponse {
	return &servedResponse{status: status, body: text, header: http.Header{
		"Content-Type": {"text/plain; charset=utf-8"},
	}}
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
		return nil, fmt.Errorf("%d arguments: want %s", len(args), want)
	}
	texts := make([]string, len(args))
	for i, a := range args {
		s, ok := a.(string)
		if !ok {
			return nil, fmt.Errorf("argument %d is %v: want a string", i+1, a)
		}
		texts[i] = s
	}
	return texts, nil
}
