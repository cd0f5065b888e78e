package etagcache

import "slices"

// recent is a map that forgets the entry that was put first if there are too many. The zero value is empty.
type recent[K comparable, V any] struct {
	byKey map[K]V
	keys  []K // of byKey, in the order in which they were put
}

// put adds or replaces an entry, which becomes the last one to be forgotten. It leaves at most limit entries.
func (r *recent[K, V]) put(key K, value V, limit int) {
	r.remove(key)
	if len(r.keys) >= limit {
		r.remove(r.keys[0])
	}
	if r.byKey == nil {
		r.byKey = make(map[K]V)
	}
	r.byKey[key], r.keys = value, append(r.keys, key)
}

func (r *recent[K, V]) remove(key K) {
	if _, known := r.byKey[key]; known {
		delete(r.byKey, key)
		i := slices.Index(r.keys, key)
		r.keys = slices.Delete(r.keys, i, i+1)
	}
}
