package compile

import (
	"hash/maphash"
	"math"

	"github.com/routesrv/routesrv/eskip"
)

// seed makes hashes differ between processes. They are only compared with each other, so no result depends on the seed.
var seed = maphash.MakeSeed()

// The names of the predicates that have their own fields.
var (
	hashOfPath         = maphash.String(seed, "Path")
	hashOfHost         = maphash.String(seed, "Host")
	hashOfPathRegexp   = maphash.String(seed, "PathRegexp")
	hashOfMethod       = maphash.String(seed, "Method")
	hashOfHeader       = maphash.String(seed, "Header")
	hashOfHeaderRegexp = maphash.String(seed, "HeaderRegexp")
)

// matchOf returns a hash of the predicates of a route as a multiset: routes that match the same requests with the same predicates
// have the same hash, whatever the order of the predicates and the fields that they are in. It is never 0.
func matchOf(r *eskip.Route) uint64 {
	var sum uint64
	if r.Path != "" {
		sum += mix(hashOfPath, maphash.String(seed, r.Path))
	}
	for _, h := range r.HostRegexps {
		sum += mix(hashOfHost, maphash.String(seed, h))
	}
	for _, p := range r.PathRegexps {
		sum += mix(hashOfPathRegexp, maphash.String(seed, p))
	}
	if r.Method != "" {
		sum += mix(hashOfMethod, maphash.String(seed, r.Method))
	}
	for k, v := range r.Headers {
		sum += mix(mix(hashOfHeader, maphash.String(seed, k)), maphash.String(seed, v))
	}
	for k, vs := range r.HeaderRegexps {
		for _, v := range vs {
			sum += mix(mix(hashOfHeaderRegexp, maphash.String(seed, k)), maphash.String(seed, v))
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
		default: // options created by programs
			h = mix(h, maphash.String(seed, p.String()))
		}
	}
	return h
}

// mix combines two hashes; their order matters.
func mix(a, b uint64) uint64 {
	a = (a ^ b) * 0x9e3779b97f4a7c15
	return a ^ a>>29
}
