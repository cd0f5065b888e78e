package match

import (
	"cmp"
	"maps"
	"net/netip"
	"net/textproto"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/routesrv/routesrv/catalogue"
)

// Request is an HTTP request as a proxy receives it.
type Request struct {
	// Method is compared exactly; empty means GET.
	Method string
	// Target is the target of the request line, escaped as on the wire. Empty means "/".
	Target string
	// Host is the Host header, including a port, unless Target is an absolute URL.
	Host string
	// Header has the lines of each header except Host, with names in any case.
	Header map[string][]string
	// RemoteAddr is the IP address of the connection, with or without a port. Predicates that need an empty one are undecided.
	RemoteAddr string
	// Time is when the request arrives, in the time zone of the proxy. Without it, predicates about time are undecided.
	Time time.Time
	// Slack is how far the clock of the proxy may differ.
	Slack time.Duration
}

// URL returns the URL of the request for a client. The scheme is the header X-Forwarded-Proto, by default https.
func (r *Request) URL() string {
	scheme := "https"
	for name, lines := range r.Header {
		if strings.EqualFold(name, "X-Forwarded-Proto") && len(lines) == 1 {
			scheme = lines[0]
		}
	}
	return scheme + "://" + r.Host + r.Target
}

// Answer is an answer of the proxy itself, before it looks for a route.
type Answer struct {
	Status int    `json:"status"`
	Text   string `json:"text"` // why
}

type request struct {
	method, host string
	path         string   // clean, with its trailing slash
	segments     []string // for the tree
	header       map[string][]string
	query        url.Values
	length       int64 // of the body; -1 if unknown before its end

	remote      netip.Addr // the zero value is in no network
	remoteKnown bool

	time  time.Time
	slack time.Duration
}

func prepare(in Request, o Options) (*request, *Answer) {
	r := &request{method: cmp.Or(in.Method, "GET"), host: in.Host, time: in.Time, slack: max(in.Slack, 0), header: canonical(in.Header)}
	target := cmp.Or(in.Target, "/")
	if r.method == "OPTIONS" && target == "*" {
		return nil, &Answer{Status: 200, Text: "the server itself answers OPTIONS *"}
	}
	u, err := parseTarget(r.method, target)
	switch {
	case err != nil:
		return nil, &Answer{Status: 400, Text: "malformed target: " + err.Error()}
	case !validHost.MatchString(in.Host): // even with an absolute target
		return nil, &Answer{Status: 400, Text: "malformed host " + strconv.Quote(in.Host)}
	case u.Host != "":
		r.host = u.Host
	}
	if !validHost.MatchString(r.host) {
		return nil, &Answer{Status: 400, Text: "malformed host " + strconv.Quote(r.host)}
	}
	if o.NormalizeHost {
		r.host = normalizeHost(r.host)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil && o.ValidateQuery {
		return nil, &Answer{Status: 400, Text: "Invalid query: " + err.Error()}
	}
	path := u.Path
	if o.RFCPatchPath {
		path = patchPath(u)
	}
	r.query, r.path = query, catalogue.CleanPath(path)
	tree := r.path
	if o.IgnoreTrailingSlash {
		tree = trimSlash(tree)
	}
	r.segments = segments(tree)
	r.length = bodyLength(r.header)
	if in.RemoteAddr != "" {
		r.remoteKnown = true
		r.remote, _ = parseAddr(in.RemoteAddr)
	}
	return r, nil
}

func parseTarget(method, target string) (*url.URL, error) {
	if method == "CONNECT" && !strings.HasPrefix(target, "/") {
		target = "http://" + target
	}
	if i := strings.IndexByte(target, ' '); i >= 0 {
		return nil, &url.Error{Op: "parse", URL: target, Err: url.EscapeError(" ")}
	}
	return url.ParseRequestURI(target)
}

func canonical(header map[string][]string) map[string][]string {
	h := make(map[string][]string, len(header))
	for _, name := range slices.Sorted(maps.Keys(header)) {
		if key := textproto.CanonicalMIMEHeaderKey(name); key != "Host" {
			h[key] = append(h[key], header[name]...)
		}
	}
	return h
}

// validHost matches a host that has only characters that a server accepts.
var validHost = regexp.MustCompile(`^[-0-9A-Za-z._~%!$&'()*+,;=:\[\]]*$`)

func normalizeHost(host string) string {
	if name, ok := cutPort(host); ok {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

func cutPort(s string) (string, bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return s, false
	}
	host := s[:i]
	if inner, ok := strings.CutPrefix(host, "["); ok {
		return strings.CutSuffix(inner, "]")
	}
	return host, !strings.ContainsAny(host, ":[]")
}

func patchPath(u *url.URL) string {
	raw, path := u.RawPath, u.Path
	var b strings.Builder
	for len(raw) > 0 && len(path) > 0 {
		n := 1
		if raw[0] == '%' && len(raw) >= 3 {
			n = 3
		} else if raw[0] != path[0] {
			return u.Path
		}
		if strings.IndexByte(";/?:@&=+$,", path[0]) >= 0 {
			b.WriteString(raw[:n])
		} else {
			b.WriteByte(path[0])
		}
		raw, path = raw[n:], path[1:]
	}
	if len(raw) > 0 || len(path) > 0 {
		return u.Path
	}
	return b.String()
}

func bodyLength(header map[string][]string) int64 {
	if len(header["Transfer-Encoding"]) > 0 {
		return -1
	}
	if lines := header["Content-Length"]; len(lines) > 0 {
		if n, err := strconv.ParseInt(strings.TrimSpace(lines[0]), 10, 64); err == nil {
			return n
		}
	}
	return 0
}

func (r *request) first(name string) (string, bool) {
	if lines := r.header[name]; len(lines) > 0 {
		return lines[0], true
	}
	return "", false
}

func (r *request) cookie(name string) (string, bool) {
	for _, line := range r.header["Cookie"] {
		for part := range strings.SplitSeq(line, ";") {
			key, val, _ := strings.Cut(textproto.TrimString(part), "=")
			if len(val) > 1 && val[0] == '"' && val[len(val)-1] == '"' {
				val = val[1 : len(val)-1]
			}
			if textproto.TrimString(key) == name && name != "" && validCookie(val) {
				return val, true
			}
		}
	}
	return "", false
}

func validCookie(val string) bool {
	return !strings.ContainsFunc(val, func(c rune) bool { return c < 0x20 || c >= 0x7f || c == '"' || c == '\\' })
}

func parseAddr(s string) (netip.Addr, bool) {
	if host, ok := cutPort(s); ok {
		s = host
	}
	a, err := netip.ParseAddr(s)
	return a, err == nil
}

func (r *request) source(last bool) (a netip.Addr, known bool) {
	if line, ok := r.first("X-Forwarded-For"); ok {
		text, _, _ := strings.Cut(line, ",") // not trimmed, as in the reference
		if last {
			text = strings.TrimSpace(line[strings.LastIndexByte(line, ',')+1:])
		}
		if a, ok := parseAddr(text); ok {
			return a, true
		}
	}
	return r.remote, r.remoteKnown
}
