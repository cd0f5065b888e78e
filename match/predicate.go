package match

import (
	"slices"
	"strings"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/internal/catalogue"
)

// verdict is the value of a predicate. The verdict of several predicates is the lowest.
type verdict int8

const (
	no verdict = iota
	maybe
	yes
)

// not returns the verdict of the opposite.
func (v verdict) not() verdict { return yes - v }

func verdictOf(b bool) verdict {
	if b {
		return yes
	}
	return no
}

// condition is a predicate prepared for evaluation.
type condition struct {
	source *eskip.Predicate // nil for predicates with their own field, which name and args describe
	name   string
	args   [2]string // only headers use the second one

	test    func(*request) verdict
	why     string      // why test may return maybe
	chance  float64     // probability of a maybe; negative if unknown
	segment *[2]float64 // for a TrafficSegment
}

// String returns the predicate as it is written in a route.
func (c *condition) String() string {
	if c.source != nil {
		return c.source.String()
	}
	r := &eskip.Route{BackendType: eskip.ShuntBackend}
	switch c.name {
	case "Host":
		r.HostRegexps = c.args[:1]
	case "PathRegexp":
		r.PathRegexps = c.args[:1]
	case "Method":
		r.Method = c.args[0]
	case "Header":
		r.Headers = map[string]string{c.args[0]: c.args[1]}
	case "HeaderRegexp":
		r.HeaderRegexps = map[string][]string{c.args[0]: c.args[1:]}
	}
	return strings.TrimSuffix(r.String(), " -> <shunt>")
}

// condition returns the condition of a valid predicate that is not built into the matcher.
func (b *builder) condition(p *eskip.Predicate) condition {
	switch p.Name {
	case "True":
		return plain(func(*request) bool { return true })
	case "False":
		return plain(func(*request) bool { return false })
	case "Shutdown":
		return condition{test: undecidedTest, chance: -1, why: "holds only in a proxy that is shutting down"}
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

// texts returns the arguments of a predicate that has only strings; nil if it has others.
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

// expression returns a regular expression of a valid predicate.
func (b *builder) expression(text string) *expression {
	x, _ := b.exprs.get(text)
	return x
}
