package kube

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"
)

func TestTexts(t *testing.T) {
	var texts Texts
	var a, b, c, d, unused string
	texts.Begin()
	texts.Set(&a, []byte("first"))
	texts.Share(&b, []byte("zone"))
	texts.Set(&c, nil)
	texts.Set(&a, []byte("second")) // the last one counts, of each kind
	texts.Share(&d, []byte("before"))
	texts.Set(&d, []byte("own"))
	if a != "" || b != "" {
		t.Errorf("%q and %q are set before the end", a, b)
	}
	texts.Done()
	if a != "second" || b != "zone" || c != "" || d != "own" {
		t.Errorf("got %q, %q, %q, %q", a, b, c, d)
	}
	texts.Set(&unused, []byte("of an object that is given up"))
	texts.Begin()
	var again string
	texts.Share(&again, []byte("zone"))
	texts.Done()
	if unused != "" || again != "zone" || unsafe.StringData(again) != unsafe.StringData(b) {
		t.Errorf("%q of another object, %q", unused, again)
	}
}

// What is kept for the next object is bounded, whatever the objects have.
func TestTextsAreBounded(t *testing.T) {
	var texts Texts
	var s string
	for i := range 3 * maxShared {
		texts.Begin()
		texts.Share(&s, fmt.Appendf(nil, "zone %d", i))
		texts.Done()
		if want := fmt.Sprintf("zone %d", i); s != want {
			t.Fatalf("%q, want %q", s, want)
		}
	}
	long := strings.Repeat("x", maxSharedSize+1)
	texts.Share(&s, []byte(long))
	texts.Set(&s, []byte(strings.Repeat("y", 2*maxTextsSize)))
	texts.Done()
	if _, kept := texts.shared[long]; kept || len(texts.shared) > maxShared || cap(texts.bytes) > maxTextsSize || len(texts.places) != 0 {
		t.Errorf("%d shared strings, %d bytes, %d places are kept", len(texts.shared), cap(texts.bytes), len(texts.places))
	}
}

func TestPairs(t *testing.T) {
	p := PairsOf(map[string]string{"b": "2", "a": "1", "c": ""})
	if len(p) != 3 || p[0] != (Pair{"a", "1"}) || p[1] != (Pair{"b", "2"}) || p[2] != (Pair{"c", ""}) {
		t.Errorf("got %v", p)
	}
	for key, want := range map[string]string{"a": "1", "b": "2", "c": "", "d": "", "": ""} {
		value, ok := p.Lookup(key)
		if value != want || p.Get(key) != want || ok != (key == "a" || key == "b" || key == "c") {
			t.Errorf("%q: %q, %v", key, value, ok)
		}
	}
	if PairsOf(nil) != nil || PairsOf(map[string]string{}) != nil || Pairs(nil).Get("a") != "" {
		t.Error("no pairs are not nil")
	}
}

// A RouteGroup keeps nothing of the memory that it was decoded from, and has everything that encoding/json finds.
func TestGatheredStringsAreTheSame(t *testing.T) {
	text := `{"metadata": {"namespace": "shop", "name": "cart", "annotations": {"k": "v"}, "labels": {"l": "w"}}, "spec": {
		"hosts": ["a.example.org", "b.example.org"], "tls": [{"hosts": ["a.example.org"], "secretName": "cert"}],
		"backends": [{"name": "b", "type": "lb", "address": "http://x", "algorithm": "random", "serviceName": "s", "servicePort": 80, "endpoints": ["http://y"]}, null],
		"defaultBackends": [{"backendName": "b", "weight": 3}, null],
		"routes": [{"path": "/p", "pathSubtree": "/s", "pathRegexp": "^/r", "backends": [{"backendName": "b"}], "filters": ["f()"], "predicates": ["P()"],
			"methods": ["GET"]}, null]}}`
	gathered, err := DecodeJSON(KindRouteGroup, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := decode[jsonRouteGroup]([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	show := func(o Object) string {
		rg := o.(*RouteGroup)
		s := fmt.Sprintf("%+v %+v", rg.Meta, rg.Spec)
		for _, b := range rg.Spec.Backends {
			s += fmt.Sprintf(" %+v", b)
		}
		for _, r := range rg.Spec.Routes {
			s += fmt.Sprintf(" %+v", r)
			if r != nil {
				s += fmt.Sprintf(" %+v", r.Backends[0])
			}
		}
		return s + fmt.Sprintf(" %+v", rg.Spec.DefaultBackends[0])
	}
	hide := func(s string) string { // addresses
		var out []string
		for _, word := range strings.Fields(s) {
			if !strings.Contains(word, "0x") {
				out = append(out, word)
			}
		}
		return strings.Join(out, " ")
	}
	if got, want := hide(show(gathered)), hide(show(plain)); got != want || !strings.Contains(got, "PathRegexp:^/r") {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
