package eskip

import (
	"net/url"
	"strings"
)

// LBEndpoint is one target of a load balanced backend.
type LBEndpoint struct {
	// Address is a URI. All endpoints of a parsed route have the same scheme.
	Address string

	// Zone is the availability zone, from the query parameter "zone" of the text. Empty if unknown.
	Zone string
}

// NewLBEndpoints returns endpoints for their text forms: a query parameter "zone" with a value becomes the Zone, and other
// parameters are then sorted by name. A text that is not a URL, or has no zone, is the unchanged Address.
func NewLBEndpoints(eps []string) []*LBEndpoint {
	if len(eps) == 0 {
		return nil
	}
	return each(eps, func(s string) *LBEndpoint {
		address, zone := splitZone(s)
		return &LBEndpoint{Address: address, Zone: zone}
	})
}

// LBEndpointString returns the addresses of eps in order, without zones.
func LBEndpointString(eps []*LBEndpoint) []string {
	if len(eps) == 0 {
		return nil
	}
	return each(eps, func(ep *LBEndpoint) string { return ep.Address })
}

// String returns the address without the zone.
func (ep LBEndpoint) String() string { return ep.Address }

// StringWithZone returns the text form: the zone is the last query parameter of the address.
func (ep LBEndpoint) StringWithZone() string {
	return string(appendEndpoint(nil, &ep))
}

func appendEndpoint(dst []byte, ep *LBEndpoint) []byte {
	if ep.Zone == "" {
		return append(dst, ep.Address...)
	}
	// The zone must join an existing query: after a second '?', or after the fragment, it would be part of something else.
	base, fragment := ep.Address, ""
	if i := strings.IndexByte(base, '#'); i >= 0 {
		base, fragment = base[:i], base[i:]
	}
	dst = append(dst, base...)
	if strings.IndexByte(base, '?') < 0 {
		dst = append(dst, "?zone="...)
	} else {
		dst = append(dst, "&zone="...)
	}
	dst = append(dst, url.QueryEscape(ep.Zone)...)
	return append(dst, fragment...)
}

func splitZone(s string) (address, zone string) {
	if _, zone, usual := usualEndpoint(s); usual {
		address, _, _ = strings.Cut(s, "?")
		return address, zone
	}
	if !strings.Contains(s, "?") {
		return s, "" // no query, or not a URL: unchanged either way
	}
	u, err := url.Parse(s)
	if err != nil {
		return s, ""
	}
	values := u.Query()
	zone = values.Get("zone")
	if zone == "" {
		return s, ""
	}
	values.Del("zone")
	u.RawQuery = values.Encode()
	return u.String(), zone
}

func endpointScheme(s string) (string, error) {
	if scheme, _, usual := usualEndpoint(s); usual {
		return scheme, nil
	}
	u, err := url.ParseRequestURI(s)
	if err != nil {
		return "", err
	}
	return u.Scheme, nil
}

// usualEndpoint returns the parts of a text such as http://10.0.0.1:8080?zone=a, for which net/url is slow.
func usualEndpoint(s string) (scheme, zone string, usual bool) {
	scheme, rest, _ := strings.Cut(s, "://")
	authority, zone, zoned := strings.Cut(rest, "?zone=")
	host, port, _ := strings.Cut(authority, ":")
	usual = (scheme == "http" || scheme == "https") && host != "" && isOnly(host, hostByte) && isOnly(port, digit) &&
		zoned == (zone != "") && isOnly(zone, hostByte|symbolByte)
	return scheme, zone, usual
}
