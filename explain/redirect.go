package explain

import (
	"net/url"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/eskip"
)

// redirected returns the request that a browser sends after the route's answer, or false if the answer is not a redirect.
func redirected(r *eskip.Route, s sample) (sample, bool) {
	for _, f := range r.Filters {
		if f.Name != "redirectTo" && f.Name != "redirectToLower" || len(f.Args) < 1 {
			continue
		}
		next := s
		if len(f.Args) > 1 {
			text, _ := f.Args[1].(string)
			to, err := url.Parse(text)
			if err != nil {
				return sample{}, false
			}
			if to.Scheme != "" {
				next.scheme = to.Scheme
			}
			if to.Host != "" {
				next.host = to.Hostname()
			}
			if to.Path != "" {
				next.path = to.Path
			}
		}
		if f.Name == "redirectToLower" {
			next.path = strings.ToLower(next.path)
		}
		next.header = map[string][]string{}
		for name, val := range s.header {
			if !strings.EqualFold(name, forwardedProto) { // the load balancer sets it itself
				next.header[name] = slices.Clone(val)
			}
		}
		return next, next.scheme == "http" || next.scheme == "https"
	}
	return sample{}, false
}
