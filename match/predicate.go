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
	"time"

	"github.com/routesrv/routesrv/catalogue"
	"github.com/routesrv/routesrv/eskip"
)

// verdict is the value of a predicate. The verdict of several predicates is the lowest.
type verdict int8

const (
	no verdict = iota
	maybe
	yes
)

func (v verdict) not() verdict { return yes - v }

func verdictOf(b bool) verdict {
	if b {
		return yes
	}
	return no
}

type condition struct {
	text func() string // the predicate as it is written in a route
	host bool          // it is a Host predicate

	test    func(*request) verdict
	why     string      // why test may return maybe
	segment *[2]float64 // for a TrafficSegment
}

func field(r eskip.Route) func() string {
	r.BackendType = eskip.ShuntBackend
	return func() string { return strings.TrimSuffix(r.String(), " -> <shunt>") }
}

func (b *builder) condition(p *eskip.Predicate) condition {
	switch p.Name {
	case "True":
		return plain(func(*request) bool { return true })
	case "False":
		return plain(func(*request) bool { return false })
	case "Shutdown":
		return condition{test: undecidedTest, why: "holds only in a proxy that is shutting down"}
	case "HostAny":
		hosts := texts(p)
		return plain(func(r *request) bool { return slices.Contains(hosts, r.host) })
	case "Methods":
		methods := strings.Fields(strings.ToUpper(strings.Join(texts(p), " ")))
		return plain(func(r *request) bool { return slices.Contains(methods, strings.ToUpper(r.method)) })
	case "Cookie":
		return b.cookie(texts(p))
	case "QueryParam":
		return b.queryParam(texts(p))
	case "Source", "SourceFromLast", "ClientIP":
		return newSource(p)
	case "Traffic":
		return newTraffic(p.Args)
	case "TrafficSegment":
		return newTrafficSegment(p.Args)
	case "Before", "After", "Between":
		return b.period(p)
	case "Cron":
		return newCron(texts(p)[0])
	case "JWTPayloadAnyKV", "JWTPayloadAllKV", "JWTPayloadAnyKVRegexp", "JWTPayloadAllKVRegexp":
		return b.jwt(texts(p), strings.Contains(p.Name, "All"), strings.HasSuffix(p.Name, "Regexp"))
	case "HeaderSHA256":
		return newHeaderSHA256(texts(p))
	case "ForwardedHost":
		rx := b.expression(texts(p)[0])
		return plain(func(r *request) bool {
			host, ok := r.forwarded("host")
			return ok && rx.match(host)
		})
	case "ForwardedProtocol":
		want := texts(p)[0]
		return plain(func(r *request) bool {
			proto, ok := r.forwarded("proto")
			return ok && proto == want
		})
	case "ContentLengthBetween":
		low, _ := catalogue.Number(p.Args[0])
		high, _ := catalogue.Number(p.Args[1])
		return plain(func(r *request) bool { return int64(low) <= r.length && r.length < int64(high) })
	case "OTelBaggage":
		return newBaggage(texts(p))
	case "Tee":
		want := texts(p)[0]
		return plain(func(r *request) bool {
			key, _ := r.first("X-Tee-Loopback-Key")
			return key == want
		})
	}
	panic("match: no condition for the predicate " + p.Name + " of the catalogue")
}

// texts returns the arguments of a predicate; nil if not all are strings.
func texts(p *eskip.Predicate) []string {
	all := make([]string, len(p.Args))
	for i, a := range p.Args {
		s, ok := a.(string)
		if !ok {
			return nil
		}
		all[i] = s
	}
	return all
}

func (b *builder) expression(text string) *expression {
	x, _ := b.exprs.get(text)
	return x
}

func newTraffic(args []any) condition {
	share, _ := catalogue.Number(args[0])
	c := condition{why: fmt.Sprintf("holds for a random %.4g %% of the requests", 100*share)}
	c.test = func(r *request) verdict {
		if len(args) == 3 && args[2] != "" {
			if group, ok := r.cookie(args[1].(string)); ok {
				return verdictOf(group == args[2])
			}
		}
		switch share {
		case 0:
			return no
		case 1:
			return yes
		}
		return maybe
	}
	return c
}

func newTrafficSegment(args []any) condition {
	from, _ := catalogue.Number(args[0])
	to, _ := catalogue.Number(args[1])
	v := maybe
	switch to - from {
	case 0:
		v = no
	case 1:
		v = yes
	}
	return condition{
		test: func(*request) verdict { return v }, segment: &[2]float64{from, to},
		why: fmt.Sprintf("holds for the requests whose random number is from %v to %v", from, to),
	}
}

const dependsOnClock = "depends on the clock and time zone of the proxy"

func (b *builder) period(p *eskip.Predicate) condition {
	limits, known, _ := b.catalogue.Period(p)
	reached := func(r *request, limit time.Time) verdict {
		if !known || r.time.IsZero() || r.slack > 0 && r.time.Sub(limit).Abs() <= r.slack {
			return maybe
		}
		return verdictOf(!r.time.Before(limit))
	}
	return condition{why: dependsOnClock, test: func(r *request) verdict {
		switch v := reached(r, limits[0]); p.Name {
		case "Before":
			return v.not()
		case "Between":
			return min(v, reached(r, limits[1]).not())
		default:
			return v
		}
	}}
}

func newCron(text string) condition {
	sets, _ := catalogue.Cron(text)
	holds := func(t time.Time) bool {
		for i, n := range []int{t.Minute(), t.Hour(), t.Day(), int(t.Month()), int(t.Weekday())} {
			if sets[i]&(1<<n) == 0 {
				return false
			}
		}
		return true
	}
	return condition{why: dependsOnClock, test: func(r *request) verdict {
		if r.time.IsZero() {
			return maybe
		}
		now := holds(r.time)
		end := r.time.Add(r.slack)
		for at := r.time.Add(-r.slack); !at.After(end); at = at.Add(min(time.Minute, max(end.Sub(at), 1))) {
			if holds(at) != now {
				return maybe
			}
		}
		return verdictOf(now)
	}}
}

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
	return condition{why: "the address of the connection is not known", test: func(r *request) verdict {
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

// forwarded returns the last element with the key in the first Forwarded header.
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

// baggage parses the valid members of the W3C header. The last one with a key counts.
func (r *request) baggage() map[string]string {
	members := map[string]string{}
	for _, line := range r.header["Baggage"] {
		for member := range strings.SplitSeq(line, ",") {
			pair, properties, more := strings.Cut(member, ";")
			key, val, ok := strings.Cut(pair, "=")
			key, val = strings.TrimSpace(key), strings.TrimSpace(val)
			plain, err := url.PathUnescape(val)
			if ok && err == nil && isToken(key) && isBaggage(val) && (!more || areProperties(properties)) {
				members[key] = plain
			}
		}
	}
	return members
}

func areProperties(text string) bool {
	for property := range strings.SplitSeq(text, ";") {
		key, val, _ := strings.Cut(property, "=")
		if !isToken(strings.TrimSpace(key)) || !isBaggage(strings.TrimSpace(val)) {
			return false
		}
	}
	return true
}

func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return c <= ' ' || c >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c)
	})
}

func isBaggage(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c >= 0x7f || strings.ContainsRune(`",;\`, c) })
}

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

// payload returns the claims of the bearer token, which it does not verify; nil if they cannot be read.
func (r *request) payload() map[string]any {
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
	if json.Unmarshal(text, &claims) != nil {
		return nil
	}
	return claims
}
