package compile

import (
	"hash/maphash"
	"math"

	"github.com/routesrv/routesrv/eskip"
)

// seed makes the hashes of one process differ from those of any other. They only tell equal from different, so no result
// depends on it.
var seed = maphash.MakeSeed()

// matchOf is a hash of the predicates of a route as a multiset: routes that match the same requests, by the same
// predicates, have one hash, whatever the order of the predicates and whichever field they are in. It is never 0.
func matchOf(r *eskip.Route) uint64 {
	var sum uint64
	text := func(name, arg string) { sum += mix(maphash.String(seed, name), maphash.String(seed, arg)) }
	if r.Path != "" {
		text("Path", r.Path)
	}
	for _, h := range r.HostRegexps {
		text("Host", h)
	}
	for _, p := range r.PathRegexps {
		text("PathRegexp", p)
	}
	if r.Method != "" {
		text("Method", r.Method)
	}
	for k, v := range r.Headers {
		sum += mix(mix(maphash.String(seed, "Header"), maphash.String(seed, k)), maphash.String(seed, v))
	}
	for k, vs := range r.HeaderRegexps {
		for _, v := range vs {
			sum += mix(mix(maphash.String(seed, "HeaderRegexp"), maphash.String(seed, k)), maphash.String(seed, v))
		}
	}
	for _, p := range r.Predicates {
		if p.Name != "Any" && p.Name != "*" {
			sum += predicateHash(p)
		}
	}
	return sum | 1
}

func predicateHash(p *eskip.Predicate) uint64 {
	h := maphash.String(seed, p.Name)
	for _, a := range p.Args {
		switch v := a.(type) {
		case string:
			h = mix(h, maphash.String(seed, v))
		case float64:
			h = mix(h, math.Float64bits(v))
		default: // options made by a program
			h = mix(h, maphash.String(seed, p.String()))
		}
	}
	return h
}

// mix joins two hashes so that their order counts.
func mix(a, b uint64) uint64 {
	a = (a ^ b) * 0x9e3779b97f4a7c15
	return a ^ a>>29
}
