package match

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/netip"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/eskip"
)

// plain returns a condition that depends only on the request.
func plain(holds func(*request) bool) condition {
	return condition{test: func(r *request) verdict { return verdictOf(holds(r)) }}
}

func (b *builder) cookie(args []string) condition {
	rx := b.expression(args[1])
	return plain(func(r *request) bool {
		val, ok := r.cookie(args[0])
		return ok && rx.match(val)
	})
}

func (b *builder) queryParam(args []string) condition {
	if len(args) == 1 {
		return plain(func(r *request) bool { return r.query.Has(args[0]) })
	}
	rx := b.expression(args[1])
	return plain(func(r *request) bool { return slices.ContainsFunc(r.query[args[0]], rx.match) })
}

func newSource(p *eskip.Predicate) condition {
	var nets []netip.Prefix
	for _, s := range texts(p) {
		n, err := netip.ParsePrefix(s)
		if err != nil {
			a, _ := netip.ParseAddr(s)
			n = netip.PrefixFrom(a.WithZone(""), a.BitLen())
		}
		nets = append(nets, n.Masked())
	}
	return condition{why: "the address of the connection is not known", chance: -1, test: func(r *request) verdict {
		addr, known := r.remote, r.remoteKnown
		if p.Name != "ClientIP" {
			addr, known = r.source(p.Name == "SourceFromLast")
		}
		if !known {
			return maybe
		}
		// An IPv4 address in IPv6 form stays an IPv6 address: it is in no IPv4 network.
		return verdictOf(slices.ContainsFunc(nets, func(n netip.Prefix) bool { return n.Contains(addr) }))
	}}
}

func newHeaderSHA256(args []string) condition {
	name := textproto.CanonicalMIMEHeaderKey(args[0])
	want := strings.ToLower(strings.Join(args[1:], " "))
	return plain(func(r *request) bool {
		val, _ := r.first(name)
		return val != "" && strings.Contains(want, fmt.Sprintf("%x", sha256.Sum256([]byte(val))))
	})
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

func newBaggage(args []string) condition {
	return plain(func(r *request) bool {
		if args[0] == "" {
			return true // as in the reference
		}
		val, ok := r.baggage()[args[0]]
		return ok && (len(args) == 1 || args[1] == "" || val == args[1])
	})
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

// jwt returns the condition for pairs of a claim and a text or an expression, all or any of which must match.
func (b *builder) jwt(pairs []string, all, regexps bool) condition {
	tests := make([]func(string) bool, len(pairs)/2)
	for i := range tests {
		want := pairs[2*i+1]
		tests[i] = func(s string) bool { return s == want }
		if regexps {
			tests[i] = b.expression(want).match
		}
	}
	return plain(func(r *request) bool {
		claims := r.payload()
		if claims == nil {
			return false
		}
		for i, test := range tests {
			claim, ok := claims[pairs[2*i]].(string)
			if holds := ok && test(claim); holds != all {
				return holds
			}
		}
		return all
	})
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
