// Package report formats the results of package match as text and JSON, and parses requests as people and logs write them. The command and
// the endpoint of a route server share it, so that their answers are the same. [Replay] compares two tables by the requests of a log.
package report

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/routesrv/routesrv/match"
	"github.com/routesrv/routesrv/shadowdiff"
)

// ClockSlack is how far the clocks of proxies may differ from the local clock.
const ClockSlack = 5 * time.Second

// View is the data of a report.
type View struct {
	Request  match.Request
	URL      string // as given
	Table    string // name of the table
	Routes   int    // of the table
	Refusals []match.Refusal
	Result   match.Result
	Owner    shadowdiff.OwnerFunc // finds the objects of routes; nil where only a table is known
}

// Matched reports whether some route gets the request, whatever is undecided.
func (v *View) Matched() bool {
	for _, o := range v.Result.Outcomes {
		if o.Route == nil {
			return false
		}
	}
	return len(v.Result.Outcomes) > 0
}

// AddHeader adds a header in curl's form: "Name: value", or "Name;" for an empty one. Host replaces the host. The error says what
// is expected.
func AddHeader(r *match.Request, line string) error {
	name, val, ok := strings.Cut(line, ":")
	if !ok {
		name, ok = strings.CutSuffix(line, ";")
	}
	if name = strings.TrimSpace(name); !ok || name == "" || strings.ContainsAny(name, " \t\r\n") || strings.ContainsAny(val, "\r\n") {
		return fmt.Errorf("%q: want a header such as 'X-Beta: 1'", line)
	}
	val = strings.TrimSpace(val)
	if strings.EqualFold(name, "Host") {
		r.Host = val
		return nil
	}
	if r.Header == nil {
		r.Header = map[string][]string{}
	}
	r.Header[name] = append(r.Header[name], val)
	return nil
}

// SetURL sets target and host from a URL, as curl does. It keeps a Host header that is already set. The error says what is
// expected.
func SetURL(r *match.Request, text string) error {
	if strings.HasPrefix(text, "/") {
		if r.Host == "" {
			return fmt.Errorf("%q names no host: want a URL, or add -H 'Host: shop.example.org'", text)
		}
		r.Target, _, _ = strings.Cut(text, "#")
		return nil
	}
	scheme, rest, ok := strings.Cut(text, "://")
	scheme = strings.ToLower(scheme)
	rest, _, _ = strings.Cut(rest, "#")
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	host := rest[strings.LastIndexByte(rest[:end], '@')+1 : end]
	if u, err := url.Parse("http://" + host); !ok || scheme != "http" && scheme != "https" || err != nil || u.Hostname() == "" {
		return fmt.Errorf("%q: want the URL of a request, such as https://shop.example.org/cart", text)
	}
	r.Target = rest[end:]
	if !strings.HasPrefix(r.Target, "/") {
		r.Target = "/" + r.Target
	}
	if r.Host == "" {
		r.Host = strings.TrimSuffix(host, map[string]string{"http": ":80", "https": ":443"}[scheme])
	}
	return nil
}
