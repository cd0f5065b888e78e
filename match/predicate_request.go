package match

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
)

// plain returns a condition that depends only on the request.
func plain(holds func(*request) bool) condition {
	return condition{test: func(r *request) verdict { return verdictOf(holds(r)) }}
}

func newHostAny(_ *builder, args []any) (condition, error) {
	hosts, err := texts(args, 1, -1)
	return plain(func(r *request) bool { return slices.Contains(hosts, r.host) }), err
}

func newMethods(_ *builder, args []any) (condition, error) {
	methods, err := texts(args, 1, -1)
	if err != nil {
		return condition{}, err
	}
	for i, m := range methods {
		methods[i] = strings.ToUpper(m)
		switch methods[i] {
		case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE":
		default:
			return condition{}, fmt.Errorf("%q is not a standard method", m)
		}
	}
	return plain(func(r *request) bool { return slices.Contains(methods, strings.ToUpper(r.method)) }), nil
}

func newCookie(b *builder, args []any) (condition, error) {
	t, err := texts(args, 2, 2)
	if err != nil {
		return condition{}, err
	}
	rx, err := b.exprs.get(t[1])
	return plain(func(r *request) bool {
		val, ok := r.cookie(t[0])
		return ok && rx.match(val)
	}), err
}

func newQueryParam(b *builder, args []any) (condition, error) {
	t, err := texts(args, 1, 2)
	if err != nil {
		return condition{}, err
	}
	if len(t) == 1 {
		return plain(func(r *request) bool { return r.query.Has(t[0]) }), nil
	}
	rx, err := b.exprs.get(t[1])
	return plain(func(r *request) bool { return slices.ContainsFunc(r.query[t[0]], rx.match) }), err
}

func newSource(name string) constructor {
	return func(_ *builder, args []any) (condition, error) {
		nets, err := parseNets(args)
		return condition{
			why: "the address of the connection is not known", chance: -1,
			test: func(r *request) verdict {
				addr, known := r.remote, r.remoteKnown
				if name != "ClientIP" {
					addr, known = r.source(name == "SourceFromLast")
				}
				if !known {
					return maybe
				}
				// An IPv4 address in IPv6 form stays an IPv6 address: it is in no IPv4 network.
				return verdictOf(slices.ContainsFunc(nets, func(n netip.Prefix) bool { return n.Contains(addr) }))
			},
		}, err
	}
}

func parseNets(args []any) ([]netip.Prefix, error) {
	list, err := texts(args, 1, -1)
	if err != nil {
		return nil, err
	}
	nets := make([]netip.Prefix, len(list))
	for i, s := range list {
		if n, err := netip.ParsePrefix(s); err == nil {
			nets[i] = n.Masked()
			continue
		}
		a, err := netip.ParseAddr(s)
		if err != nil || a.IsUnspecified() {
			return nil, fmt.Errorf("%q is neither an IP address nor a CIDR", s)
		}
		nets[i] = netip.PrefixFrom(a.WithZone(""), a.BitLen())
	}
	return nets, nil
}

func newHeaderSHA256(_ *builder, args []any) (condition, error) {
	t, err := texts(args, 2, -1)
	if err != nil {
		return condition{}, err
	}
	name := textproto.CanonicalMIMEHeaderKey(t[0])
	var sums [][sha256.Size]byte
	for _, s := range t[1:] {
		sum, err := hex.DecodeString(s)
		if err != nil || len(sum) != sha256.Size {
			return condition{}, fmt.Errorf("%q: want 64 hexadecimal digits", s)
		}
		sums = append(sums, [sha256.Size]byte(sum))
	}
	return plain(func(r *request) bool {
		val, _ := r.first(name)
		return val != "" && slices.Contains(sums, sha256.Sum256([]byte(val)))
	}), nil
}

// forwarded returns the last element with the key in the first Forwarded header, and whether there is such a header.
func (r *request) forwarded(key string) (val string, ok bool) {
	line, ok := r.first("Forwarded")
	for element := range strings.SplitSeq(line, ",") {
		for pair := range strings.SplitSeq(element, ";") {
			if k, v, found := strings.Cut(strings.TrimSpace(pair), "="); found && k == key {
				val = strings.Trim(v, `"`)
			}
		}
	}
	return val, ok
}

func newForwardedHost(b *builder, args []any) (condition, error) {
	t, err := texts(args, 1, 1)
	if err != nil {
		return condition{}, err
	}
	if t[0] == "" {
		return condition{}, errors.New("the expression is empty")
	}
	rx, err := b.exprs.get(t[0])
	return plain(func(r *request) bool {
		host, ok := r.forwarded("host")
		return ok && rx.match(host)
	}), err
}

func newForwardedProtocol(_ *builder, args []any) (condition, error) {
	t, err := texts(args, 1, 1)
	if err != nil {
		return condition{}, err
	}
	if t[0] != "http" && t[0] != "https" {
		return condition{}, fmt.Errorf("%q: want http or https", t[0])
	}
	return plain(func(r *request) bool {
		proto, ok := r.forwarded("proto")
		return ok && proto == t[0]
	}), nil
}

func newContentLength(_ *builder, args []any) (condition, error) {
	n, err := numbers(args, 2, 2)
	if err != nil {
		return condition{}, err
	}
	low, high := int64(n[0]), int64(n[1])
	if low < 0 || high <= low {
		return condition{}, fmt.Errorf("%d to %d: want two numbers from 0, the second above the first", low, high)
	}
	return plain(func(r *request) bool { return low <= r.length && r.length < high }), nil
}

func newTee(_ *builder, args []any) (condition, error) {
	t, err := texts(args, 1, 1)
	if err != nil {
		return condition{}, err
	}
	if t[0] == "" {
		return condition{}, errors.New("the key is empty")
	}
	return plain(func(r *request) bool {
		key, _ := r.first("X-Tee-Loopback-Key")
		return key == t[0]
	}), nil
}

func newBaggage(_ *builder, args []any) (condition, error) {
	t, err := texts(args, 1, 2)
	if err != nil {
		return condition{}, err
	}
	return plain(func(r *request) bool {
		if t[0] == "" {
			return true // as in the reference
		}
		val, ok := r.baggage()[t[0]]
		return ok && (len(t) == 1 || t[1] == "" || val == t[1])
	}), nil
}

// baggage parses the members of the W3C header. One malformed member invalidates all.
func (r *request) baggage() map[string]string {
	members := map[string]string{}
	line, ok := r.first("Baggage")
	if !ok {
		return nil
	}
	for member := range strings.SplitSeq(line, ",") {
		pair, _, _ := strings.Cut(member, ";") // properties
		key, val, ok := strings.Cut(pair, "=")
		key = strings.TrimSpace(key)
		val, err := url.PathUnescape(strings.TrimSpace(val))
		if !ok || key == "" || err != nil {
			return nil
		}
		members[key] = val
	}
	return members
}

func newJWT(all, regexps bool) constructor {
	return func(b *builder, args []any) (condition, error) {
		t, err := texts(args, 2, -1)
		if err != nil {
			return condition{}, err
		}
		if len(t)%2 != 0 {
			return condition{}, fmt.Errorf("%d arguments: want pairs", len(t))
		}
		tests := make([]func(string) bool, len(t)/2)
		for i := range tests {
			want := t[2*i+1]
			tests[i] = func(s string) bool { return s == want }
			if regexps {
				rx, err := b.exprs.get(want)
				if err != nil {
					return condition{}, err
				}
				tests[i] = rx.match
			}
		}
		return plain(func(r *request) bool {
			claims := r.payload()
			if claims == nil {
				return false
			}
			for i, test := range tests {
				claim, ok := claims[t[2*i]].(string)
				if holds := ok && test(claim); holds != all {
					return holds
				}
			}
			return all
		}), nil
	}
}

// payload returns the claims of the bearer token, or nil if they cannot be read. It verifies nothing.
func (r *request) payload() map[string]any {
	if r.jwtRead {
		return r.claims
	}
	r.jwtRead = true
	line, _ := r.first("Authorization")
	token, ok := strings.CutPrefix(line, "Bearer ")
	parts := strings.Split(token, ".")
	if !ok || len(parts) != 3 {
		return nil
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil
	}
	var claims map[string]any
	if json.Unmarshal(text, &claims) == nil {
		r.claims = claims
	}
	return r.claims
}
