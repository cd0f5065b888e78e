package eskip

import (
	"cmp"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// TemplateContext provides the values for [Template.ApplyContext].
type TemplateContext interface {
	// PathParam returns what the path wildcard of that name matched, or "".
	PathParam(string) string

	// Request returns the request.
	Request() *http.Request

	// Response returns the response, or nil before there is one.
	Response() *http.Response
}

// TemplateGetter returns the value of a placeholder, or "" if it has none.
type TemplateGetter func(string) string

// Template is an immutable text with placeholders, such as "/${lang}/${request.header.X-Page}".
type Template struct {
	text string
	keys []string // of the placeholders, in order of appearance, without repetitions
}

// NewTemplate finds the placeholders ${key} in template, whose keys have at least one character and no braces.
func NewTemplate(template string) *Template {
	t := &Template{text: template}
	for _, m := range placeholder.FindAllStringSubmatch(template, -1) {
		if !slices.Contains(t.keys, m[1]) {
			t.keys = append(t.keys, m[1])
		}
	}
	return t
}

var placeholder = regexp.MustCompile(`\$\{([^{}]+)\}`)

// Apply returns the text with the placeholders replaced by the values of get, one after another in order of appearance; a later
// placeholder inside a value is replaced, too. A nil get changes nothing.
func (t *Template) Apply(get TemplateGetter) string {
	if get == nil {
		return t.text
	}
	text, _ := t.apply(get)
	return text
}

// ApplyContext returns the text with the placeholders replaced by values of ctx, and whether all values were non-empty. The keys
// are
//
//	request.method, request.host, request.path, request.rawQuery
//	request.header.<name>, request.query.<name>, request.cookie.<name>
//	request.source          first address of X-Forwarded-For if it is one, else the client's
//	request.sourceFromLast  last address of X-Forwarded-For if it is one, else the client's
//	request.clientIP        address of the connection
//	response.header.<name>  if there is a response
//
// and any other key is a path parameter.
func (t *Template) ApplyContext(ctx TemplateContext) (string, bool) {
	return t.apply(func(key string) string { return contextValue(ctx, key) })
}

func (t *Template) apply(get TemplateGetter) (string, bool) {
	text, all := t.text, true
	for _, key := range t.keys {
		value := get(key)
		if value == "" {
			all = false
		}
		text = strings.ReplaceAll(text, "${"+key+"}", value)
	}
	return text, all
}

func contextValue(ctx TemplateContext, key string) string {
	if rest, ok := strings.CutPrefix(key, "request."); ok {
		if req := ctx.Request(); req != nil {
			if value, ok := requestValue(req, rest); ok {
				return value
			}
		}
	}
	if name, ok := strings.CutPrefix(key, "response.header."); ok {
		if resp := ctx.Response(); resp != nil {
			return resp.Header.Get(name)
		}
	}
	return ctx.PathParam(key)
}

func requestValue(req *http.Request, key string) (string, bool) {
	if name, ok := strings.CutPrefix(key, "header."); ok {
		return req.Header.Get(name), true
	}
	u := cmp.Or(req.URL, &url.URL{})
	if name, ok := strings.CutPrefix(key, "query."); ok {
		return u.Query().Get(name), true
	}
	if name, ok := strings.CutPrefix(key, "cookie."); ok {
		c, err := req.Cookie(name)
		if err != nil {
			return "", true
		}
		return c.Value, true
	}
	switch key {
	case "method":
		return req.Method, true
	case "host":
		return req.Host, true
	case "path":
		return u.Path, true
	case "rawQuery":
		return u.RawQuery, true
	case "source":
		first, _, _ := strings.Cut(req.Header.Get("X-Forwarded-For"), ",")
		return source(req, first), true
	case "sourceFromLast":
		list := req.Header.Get("X-Forwarded-For")
		return source(req, list[strings.LastIndexByte(list, ',')+1:]), true
	case "clientIP":
		host, _, err := net.SplitHostPort(req.RemoteAddr)
		return host, err == nil
	}
	return "", false
}

// source returns the forwarded address, or the one of the connection if the text is no address.
func source(req *http.Request, forwarded string) string {
	if ip := net.ParseIP(hostOnly(strings.TrimSpace(forwarded))); ip != nil {
		return ip.String()
	}
	return hostOnly(req.RemoteAddr)
}

func hostOnly(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}
