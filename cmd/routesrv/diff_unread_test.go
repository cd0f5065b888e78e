package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestDiffComparesWhatIsReadable: the reference serves routes that no reader of its table can parse. diff names them and compares all others.
func TestDiffComparesWhatIsReadable(t *testing.T) {
	const twice = "kube_shop__twice______: Header(\"X\", \"a\") && Header(\"X\", \"b\") -> <shunt>;\n"
	reference := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Count", "4")
		fmt.Fprint(w, tableB+twice)
	}))
	defer reference.Close()
	for _, c := range []struct {
		name, ours, place string
		want              []string
	}{
		{"other differences", tableA, reference.URL + "/routes", []string{
			"B, not compared: route kube_shop__twice______: ", "different: 3 of 4 routes: 1 missing, 1 extra, 1 changed; 1 unreadable route not compared"}},
		{"no other difference", tableB, reference.URL + "/routes", []string{
			"B, not compared: route kube_shop__twice______: ", "different: 1 unreadable route not compared, 3 routes the same"}},
		{"a saved copy", tableB, tempFile(t, "reference.eskip", tableB+twice), []string{"B, not compared: route kube_shop__twice______: "}},
	} {
		r := runWith(t, "", "diff", tempFile(t, "ours.eskip", c.ours), c.place)
		for _, want := range c.want {
			if r.status != 1 || !strings.Contains(r.out, want) {
				t.Errorf("%s: status %d, %s\n%s\nwant %q", c.name, r.status, r.err, r.out, want)
			}
		}
		if r := runWith(t, "", "diff", "--output=json", tempFile(t, "ours.eskip", c.ours), c.place); !strings.Contains(r.out, `"result": "different"`) {
			t.Errorf("%s: %s", c.name, r.out)
		}
	}
	if r := runWith(t, "", "match", "http://x.example.org/pay", reference.URL+"/routes"); r.status != 0 || !strings.Contains(r.err, "left out: route kube_shop__twice______: ") {
		t.Errorf("match: status %d, %s\n%s", r.status, r.err, r.out)
	}
	empty := tempFile(t, "broken.eskip", "a: * -> f( -> <shunt>;\nb: * -> <shunt>;\n")
	if r := runWith(t, "", "diff", empty, empty); r.status != 2 {
		t.Errorf("a file that is mostly no routes: status %d\n%s%s", r.status, r.out, r.err)
	}
}
