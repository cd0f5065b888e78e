package decode

import (
	"reflect"

	"github.com/routesrv/routesrv/kube"
)

// texts moves the strings of objects into one string for each object: an object has a dozen short ones, and each is an allocation by
// itself, rounded up. Strings that many objects have, by the tags of package kube, are in memory only once. The zero value is ready.
type texts struct {
	bytes  []byte
	places []place
	shared map[string]string
	tags   map[reflect.Type][]bool // of the fields of a struct: whether many objects have the string
}

// place is where a part of the bytes belongs.
type place struct {
	at         *string
	begin, end int
}

// Limits of what texts keep from one object to the next.
const (
	maxShared     = 4096    // strings in the table of shared ones, which is emptied when it is full
	maxSharedSize = 64      // bytes of one
	maxTextsSize  = 1 << 16 // bytes of an object
)

// compact moves the strings of an object that nobody else has yet.
func (t *texts) compact(o kube.Object) {
	t.walk(reflect.ValueOf(o).Elem(), false)
	all := string(t.bytes)
	for _, p := range t.places {
		*p.at = all[p.begin:p.end]
	}
	clear(t.places) // they would keep the object
	t.places = t.places[:0]
	if t.bytes = t.bytes[:0]; cap(t.bytes) > maxTextsSize {
		t.bytes = nil
	}
}

func (t *texts) walk(v reflect.Value, shared bool) {
	switch v.Kind() {
	case reflect.String:
		t.move(v.Addr().Interface().(*string), shared)
	case reflect.Pointer:
		if !v.IsNil() {
			t.walk(v.Elem(), shared)
		}
	case reflect.Slice:
		for i := range v.Len() {
			t.walk(v.Index(i), shared)
		}
	case reflect.Struct:
		for i, shared := range t.tagsOf(v.Type()) {
			t.walk(v.Field(i), shared)
		}
	}
}

// tagsOf returns for each field of a struct whether it is shared.
func (t *texts) tagsOf(of reflect.Type) []bool {
	tags, known := t.tags[of]
	if !known {
		for i := range of.NumField() {
			tags = append(tags, of.Field(i).Tag.Get("texts") == "shared")
		}
		if t.tags == nil {
			t.tags = make(map[reflect.Type][]bool)
		}
		t.tags[of] = tags
	}
	return tags
}

func (t *texts) move(at *string, shared bool) {
	s := *at
	switch {
	case s == "":
	case !shared || len(s) > maxSharedSize:
		begin := len(t.bytes)
		t.bytes = append(t.bytes, s...)
		t.places = append(t.places, place{at, begin, len(t.bytes)})
	default:
		known, ok := t.shared[s]
		if !ok {
			if t.shared == nil || len(t.shared) >= maxShared {
				t.shared = make(map[string]string)
			}
			known, t.shared[s] = s, s
		}
		*at = known
	}
}
