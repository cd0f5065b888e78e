package kube

import "testing"

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
