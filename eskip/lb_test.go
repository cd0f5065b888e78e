package eskip

import (
	"net/url"
	"reflect"
	"strings"
	"testing"
)

func TestEndpointTextIsSplitIntoAddressAndZone(t *testing.T) {
	for _, c := range []struct{ text, address, zone, print string }{
		{"http://10.0.0.1:8080?zone=eu-central-1a", "http://10.0.0.1:8080", "eu-central-1a", ""},
		{"http://10.0.0.1:8080", "http://10.0.0.1:8080", "", ""},
		{"http://x/?zone=a&b=2&a=1", "http://x/?a=1&b=2", "a", "http://x/?a=1&b=2&zone=a"},
		{"http://x/?zone=a&b=2&zone=c", "http://x/?b=2", "a", "http://x/?b=2&zone=a"},
		{"http://x?zone=", "http://x?zone=", "", ""},
		{"http://x?zone", "http://x?zone", "", ""},
		{"http://x?zone=&zone=a", "http://x?zone=&zone=a", "", ""},
		{"http://x?Zone=a", "http://x?Zone=a", "", ""},
		{"http://x?%7Aone=a", "http://x", "a", "http://x?zone=a"},
		{"http://y?zone=z%20q", "http://y", "z q", "http://y?zone=z+q"},
		{"http://y?zone=z_1.2-3", "http://y", "z_1.2-3", ""},
		{"http://x?zone=a#f", "http://x#f", "a", ""},
		{"http://x/#f?zone=a", "http://x/#f?zone=a", "", ""},
		{"?zone=a#f", "#f", "a", ""},
		{"HTTP://X?zone=a", "http://X", "a", "http://X?zone=a"},
		{"10.0.0.1:80?zone=a", "10.0.0.1:80?zone=a", "", ""},
		{"not a url", "not a url", "", ""},
		{"", "", "", ""},
	} {
		if c.print == "" {
			c.print = c.text
		}
		ep := NewLBEndpoints([]string{c.text})[0]
		if want := (LBEndpoint{Address: c.address, Zone: c.zone}); *ep != want {
			t.Errorf("%q gives %+v, want %+v", c.text, *ep, want)
		}
		if got := ep.StringWithZone(); got != c.print {
			t.Errorf("%q prints as %q, want %q", c.text, got, c.print)
		}
		if got := ep.String(); got != c.address {
			t.Errorf("%q has the string %q, want the address %q", c.text, got, c.address)
		}
	}
}

func TestEmptyEndpointListsAreNil(t *testing.T) {
	if got := NewLBEndpoints([]string{}); got != nil {
		t.Errorf("NewLBEndpoints of an empty list is %v, want nil", got)
	}
	if got := LBEndpointString([]*LBEndpoint{}); got != nil {
		t.Errorf("LBEndpointString of an empty list is %v, want nil", got)
	}
}

func TestLBEndpointStringReturnsAddresses(t *testing.T) {
	got := LBEndpointString(NewLBEndpoints([]string{"http://b?zone=z", "http://a"}))
	if want := []string{"http://b", "http://a"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// slowZone is splitZone without the short cuts.
func slowZone(s string) (address, zone string) {
	u, err := url.Parse(s)
	if err != nil || u.Query().Get("zone") == "" {
		return s, ""
	}
	q := u.Query()
	zone = q.Get("zone")
	q.Del("zone")
	u.RawQuery = q.Encode()
	return u.String(), zone
}

func FuzzEndpoint(f *testing.F) {
	for _, s := range []string{
		"http://10.0.0.1:8080?zone=eu-central-1a", "https://a.b-c:?zone=x", "http://:80", "http://a:b", "http://a:80:80",
		"http://x?%7Aone=a", "http://x?zone=a;b", "http://x/?zone=a&b=2&a=1#f", "///x?zone=a", "//h?zone=a", "/a?zone=b",
		"http:x?zone=a", "mailto:x?zone=a", "http://x?zone=a\x00", "http://u:p@h/p%2f?zone=a", "http://[::1]:80?zone=a",
		"http://x??zone=a", "http://x?&zone=a&", "http://x/#?zone=a", "", "http://", "http://-", "http://x?b=%zz&zone=a",
		"/a:b?zone=c", "/.//x?zone=a", "*?zone=a", "http://a?zone=a?b",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		address, zone := splitZone(s)
		if a, z := slowZone(s); a != address || z != zone {
			t.Errorf("%q: got %q, %q, want %q, %q", s, address, zone, a, z)
		}
		scheme, err := endpointScheme(s)
		u, wantErr := url.ParseRequestURI(s)
		if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() || err == nil && scheme != u.Scheme {
			t.Errorf("%q: got scheme %q and error %v, want %v and %v", s, scheme, err, u, wantErr)
		}
		if err != nil {
			return
		}
		routes, err := Parse("* -> <" + appendQuoted(s) + ">")
		if err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		if got, want := *routes[0].LBEndpoints[0], (LBEndpoint{address, zone}); got != want {
			t.Errorf("%q: parsed as %+v, want %+v", s, got, want)
		}
		checkRoundTrip(t, routes)
	})
}

func appendQuoted(s string) string { return string(appendString(nil, s)) }

func TestShortCutsOfEndpointsAgreeWithNetURL(t *testing.T) {
	hosts := []string{"x", "10.0.0.1", "a-b.c", "", "-", ".", "A", "a_b", "a b", "[::1]", "é"}
	ports := []string{"", ":", ":80", ":x", ":80:80", ":99999999"}
	tails := []string{"", "/", "?", "?zone=a", "?zone=", "?zone=a&zone=b", "#", "/a?b=c", "?zone=a\n", "?zone=é", "?zone=a;"}
	for _, scheme := range []string{"http://", "https://", "HTTP://", "http:", "//", "/", ""} {
		for _, host := range hosts {
			for _, port := range ports {
				for _, tail := range tails {
					s := strings.Join([]string{scheme, host, port, tail}, "")
					address, zone := splitZone(s)
					if a, z := slowZone(s); a != address || z != zone {
						t.Errorf("%q: got %q, %q, want %q, %q", s, address, zone, a, z)
					}
					scheme, err := endpointScheme(s)
					u, wantErr := url.ParseRequestURI(s)
					if (err == nil) != (wantErr == nil) || err == nil && scheme != u.Scheme {
						t.Errorf("%q: got scheme %q and error %v, want %v and %v", s, scheme, err, u, wantErr)
					}
				}
			}
		}
	}
}
