package eskip_test

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/eskip"
)

func TestTemplateReplacesPlaceholders(t *testing.T) {
	values := map[string]string{"a": "1", "b c": "2", " d ": "3", "nested": "<${a}>", "a.b": "4", "é": "5", "n\nl": "6"}
	for _, c := range []struct{ template, want string }{
		{"", ""},
		{"plain", "plain"},
		{"${a}", "1"},
		{"x${a}y${b c}z${ d }", "x1y2z3"},
		{"${a}${a}", "11"},
		{"${missing}.", "."},
		{"${}", "${}"},
		{"$a {a} $ {a} ${a", "$a {a} $ {a} ${a"},
		{"${a{b}}", "${a{b}}"},
		{"${x${a}}", "${x1}"},
		{"$${a}", "$1"},
		{"${a}}", "1}"},
		{"${a.b}${é}${n\nl}", "456"},
		{"${nested}${a}", "<1>1"},
		{"${a}${nested}", "1<${a}>"},
	} {
		got := eskip.NewTemplate(c.template).Apply(func(key string) string { return values[key] })
		if got != c.want {
			t.Errorf("%q: got %q, want %q", c.template, got, c.want)
		}
	}
}

func TestTemplateWithoutGetterIsItsText(t *testing.T) {
	if got := eskip.NewTemplate("/${a}/").Apply(nil); got != "/${a}/" {
		t.Errorf("got %q", got)
	}
}

type templateContext struct {
	params   map[string]string
	request  *http.Request
	response *http.Response
}

func (c templateContext) PathParam(key string) string { return c.params[key] }

func (c templateContext) Request() *http.Request { return c.request }

func (c templateContext) Response() *http.Response { return c.response }

func newTemplateContext(change func(*templateContext)) templateContext {
	c := templateContext{
		params: map[string]string{"id": "42", "response.header.X-Out": "param", "request.clientIP": "param", "request.header.X-None": "param",
			"request.path": "param", "request.rawQuery": "param", "request.query.a": "param", "request.query.c": "param", "request.cookie.none": "param"},
		request: &http.Request{
			Method:     "PUT",
			Host:       "example.org",
			URL:        &url.URL{Path: "/p q", RawQuery: "a=1&a=2&b=%20"},
			RemoteAddr: "192.0.2.1:4711",
			Header:     http.Header{"X-In": {"in"}, "Cookie": {"session=s1"}},
		},
	}
	if change != nil {
		change(&c)
	}
	return c
}

func TestTemplateTakesValuesOfTheContext(t *testing.T) {
	forwarded := func(list string) func(*templateContext) {
		return func(c *templateContext) { c.request.Header.Set("X-Forwarded-For", list) }
	}
	remote := func(addr string) func(*templateContext) {
		return func(c *templateContext) { c.request.RemoteAddr = addr }
	}
	for _, c := range []struct {
		key, want string
		change    func(*templateContext)
	}{
		{"id", "42", nil},
		{"none", "", nil},
		{"request.header.X-In", "in", nil},
		{"request.header.x-in", "in", nil},
		{"request.header.X-None", "", nil}, // not the path parameter, here and below
		{"request.query.a", "1", nil},
		{"request.query.b", " ", nil},
		{"request.query.c", "", nil},
		{"request.cookie.session", "s1", nil},
		{"request.cookie.none", "", nil},
		{"request.method", "PUT", nil},
		{"request.host", "example.org", nil},
		{"request.path", "/p q", nil},
		{"request.rawQuery", "a=1&a=2&b=%20", nil},
		{"request.source", "192.0.2.1", nil},
		{"request.source", "198.51.100.1", forwarded("198.51.100.1, 203.0.113.9")},
		{"request.source", "2001:db8::1", forwarded("2001:db8::1")},
		{"request.source", "192.0.2.1", forwarded("unknown, 203.0.113.9")},
		{"request.sourceFromLast", "203.0.113.9", forwarded("198.51.100.1, 203.0.113.9")},
		{"request.sourceFromLast", "198.51.100.1", forwarded("198.51.100.1")},
		{"request.sourceFromLast", "192.0.2.1", forwarded("198.51.100.1, x")},
		{"request.sourceFromLast", "192.0.2.1", nil},
		{"request.source", "192.0.2.7", remote("192.0.2.7")},
		{"request.clientIP", "192.0.2.1", nil},
		{"request.clientIP", "::1", remote("[::1]:80")},
		{"request.clientIP", "param", remote("no port")},
		{"request.unknown", "", nil},
		{"response.header.X-Out", "param", nil},
		{"response.header.X-Out", "out", func(c *templateContext) { c.response = &http.Response{Header: http.Header{"X-Out": {"out"}}} }},
		{"response.header.X-Out", "", func(c *templateContext) { c.response = &http.Response{} }},
		{"request.path", "", func(c *templateContext) { c.request.URL = nil }},
		{"request.rawQuery", "", func(c *templateContext) { c.request.URL = nil }},
		{"request.query.a", "", func(c *templateContext) { c.request.URL = nil }},
		{"request.method", "", func(c *templateContext) { c.request = nil }},
	} {
		got, ok := eskip.NewTemplate("<${" + c.key + "}>").ApplyContext(newTemplateContext(c.change))
		if got != "<"+c.want+">" || ok != (c.want != "") {
			t.Errorf("%s: got %q, %t, want <%s>, %t", c.key, got, ok, c.want, c.want != "")
		}
	}
}

func TestTemplateSaysWhetherAllPlaceholdersHadValues(t *testing.T) {
	for template, want := range map[string]bool{
		"": true, "x": true, "${id}": true, "${id}${request.method}": true, "${id}${none}": false, "${none}${id}": false,
	} {
		if _, got := eskip.NewTemplate(template).ApplyContext(newTemplateContext(nil)); got != want {
			t.Errorf("%q: got %t, want %t", template, got, want)
		}
	}
}

func FuzzTemplate(f *testing.F) {
	for _, s := range []string{"", "${a}", "x${a}y${b}", "${}", "${a${b}}", "$${a}}", "${a{b}}", "${\xff}", "${${${", "${a}${a}"} {
		f.Add(s)
	}
	placeholder := regexp.MustCompile(`\$\{([^{}]+)\}`)
	f.Fuzz(func(t *testing.T, template string) {
		want, asked := template, []string{}
		for _, m := range placeholder.FindAllStringSubmatch(template, -1) {
			if !slices.Contains(asked, m[1]) {
				asked = append(asked, m[1])
			}
			want = strings.ReplaceAll(want, m[0], "<"+m[1]+">")
		}
		var keys []string
		got := eskip.NewTemplate(template).Apply(func(key string) string {
			keys = append(keys, key)
			return "<" + key + ">"
		})
		if got != want || !slices.Equal(keys, asked) && len(asked) > 0 {
			t.Errorf("%q: got %q for keys %q, want %q for %q", template, got, keys, want, asked)
		}
	})
}
