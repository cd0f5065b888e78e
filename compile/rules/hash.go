package rules

import (
	"fmt"
	"hash/maphash"

	"github.com/routesrv/routesrv/eskip"
)

// seed makes hashes differ between processes. They are only compared with each other, so no result depends on the seed.
var seed = maphash.MakeSeed()

// matchOf returns a hash of the predicates of a route as a multiset: routes that match the same requests with the same predicates
// have the same hash, whatever the order of the predicates and the fields that they are in. It is never 0.
func matchOf(r *eskip.Route) uint64 {
	var sum uint64
	add := func(name string, args ...any) { sum += predicateHash(name, args) }
	if r.Path != "" {
		add("Path", r.Path)
	}
	for _, h := range r.HostRegexps {
		add("Host", h)
	}
	for _, p := range r.PathRegexps {
		add("PathRegexp", p)
	}
	if r.Method != "" {
		add("Method", r.Method)
	}
	for k, v := range r.Headers {
		add("Header", k, v)
	}
	for k, vs := range r.HeaderRegexps {
		for _, v := range vs {
			add("HeaderRegexp", k, v)
		}
	}
	for _, p := range r.Predicates {
		if p.Name != "Any" && p.Name != "*" {
			add(p.Name, p.Args...)
		}
	}
	return sum | 1
}

func predicateHash(name string, args []any) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	maphash.WriteComparable(&h, name)
	for _, a := range args {
		switch a.(type) {
		case string, float64:
			maphash.WriteComparable(&h, a)
		default: // of programs: it may have no hash
			h.WriteString(fmt.Sprint(a))
		}
	}
	return h.Sum64()
}

// hashID returns the hash of an id.
func hashID(id string) uint64 { return maphash.String(seed, id) }
