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

// NewLBEndpoints returns endpoints for their text forms: a query parameter "zone" with a value becomes the Zone and is removed
// from the Address, whose other parameters are then sorted by name. A text that is not a URL, or has no zone, is the unchanged
// Address. The result is nil for an empty list.
func NewLBEndpoints(eps []string) []*LBEndpoint {
	if len(eps) == 0 {
		return nil
	}
	out := make([]*LBEndpoint, len(eps))
	for i, s := range eps {
		out[i] = newLBEndpoint(s)
	}
	return out
}

// LBEndpointString returns the addresses of eps in order, without zones. It is nil for an empty list.
func LBEndpointString(eps []*LBEndpoint) []string {
	if len(eps) == 0 {
		return nil
	}
	out := make([]string, len(eps))
	for i, ep := range eps {
		out[i] = ep.Address
	}
	return out
}

// String returns the address without the zone.
func (ep LBEndpoint) String() string { return ep.Address }

// StringWithZone returns the text form, from which [NewLBEndpoints] creates the same endpoint: the zone is the last query
// parameter of the address.
func (ep LBEndpoint) StringWithZone() string {
	if ep.Zone == "" {
		return ep.Address
	}
	return string(appendEndpoint(nil, &ep))
}

// appendEndpoint appends the text form of ep, unquoted.
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
	if plainZone(ep.Zone) {
		dst = append(dst, ep.Zone...)
	} else {
		dst = append(dst, url.QueryEscape(ep.Zone)...)
	}
	return append(dst, fragment...)
}

// newLBEndpoint returns the endpoint for a text form.
func newLBEndpoint(s string) *LBEndpoint {
	address, zone := splitZone(s)
	return &LBEndpoint{Address: address, Zone: zone}
}

// splitZone separates the text form of an endpoint into address and zone.
func splitZone(s string) (address, zone string) {
	q := strings.IndexByte(s, '?')
	if q < 0 {
		return s, "" // no query, or not a URL: unchanged either way
	}
	query := s[q+1:]
	if z, ok := strings.CutPrefix(query, "zone="); ok && plainZone(z) && plainAuthority(s[:q]) > 0 {
		return s[:q], z // the usual endpoint, in which nothing would be re-encoded
	}
	if !strings.Contains(query, "zone=") && strings.IndexByte(query, '%') < 0 {
		return s, "" // without escapes, a parameter is only called zone if the text contains the word
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

// plainZone reports whether s is not empty and identical with and without query escaping.
func plainZone(s string) bool {
	for i := range len(s) {
		if class[s[i]]&hostByte == 0 && s[i] != '_' {
			return false
		}
	}
	return s != ""
}

// plainAuthority returns the length of the scheme of a URL that consists only of http://host, http://host:port or the same with
// https, and 0 for any other text. This is the part of net/url.Parse that nearly all endpoints need: such a text is valid, and
// the parsed URL prints the same.
func plainAuthority(s string) (scheme int) {
	switch {
	case strings.HasPrefix(s, "http://"):
		scheme = len("http")
	case strings.HasPrefix(s, "https://"):
		scheme = len("https")
	default:
		return 0
	}
	i := scheme + len("://")
	host := i
	for i < len(s) && class[s[i]]&hostByte != 0 {
		i++
	}
	if i == host {
		return 0
	}
	if i < len(s) && s[i] == ':' {
		for i++; i < len(s) && class[s[i]]&digit != 0; i++ {
		}
	}
	if i < len(s) {
		return 0
	}
	return scheme
}

// endpointScheme validates the text of an endpoint, as net/url.ParseRequestURI does, and returns its scheme.
func endpointScheme(s string) (string, error) {
	// The query does not affect the validity, except for control characters, so only the usual one is skipped.
	base := s
	if q := strings.IndexByte(s, '?'); q >= 0 {
		if z, ok := strings.CutPrefix(s[q:], "?zone="); ok && plainZone(z) {
			base = s[:q]
		}
	}
	if n := plainAuthority(base); n > 0 {
		return base[:n], nil
	}
	u, err := url.ParseRequestURI(s)
	if err != nil {
		return "", err
	}
	return u.Scheme, nil
}
