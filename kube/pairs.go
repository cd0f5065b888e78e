package kube

import (
	"maps"
	"slices"
	"strings"
)

// Pairs are the annotations or the labels of an object, sorted by key, each key once; nil if there are none. They must not be changed.
// A slice takes a fraction of the memory of a map, and a cluster has tens of thousands of them.
type Pairs []Pair

// Pair is one annotation or label.
type Pair struct {
	Key   string
	Value string
}

// PairsOf returns the pairs of a map.
func PairsOf(m map[string]string) Pairs {
	if len(m) == 0 {
		return nil
	}
	p := make(Pairs, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		p = append(p, Pair{key, m[key]})
	}
	return p
}

// Get returns the value of a key, or "" without it.
func (p Pairs) Get(key string) string {
	value, _ := p.Lookup(key)
	return value
}

// Lookup returns the value of a key, and whether there is one.
func (p Pairs) Lookup(key string) (value string, ok bool) {
	i, ok := slices.BinarySearchFunc(p, key, func(pair Pair, key string) int { return strings.Compare(pair.Key, key) })
	if !ok {
		return "", false
	}
	return p[i].Value, true
}
