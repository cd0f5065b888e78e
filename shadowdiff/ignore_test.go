package shadowdiff_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/shadowdiff"
)

func TestParseIgnore(t *testing.T) {
	for _, c := range []struct {
		in        string
		endpoints bool
		ids       []string
		err       string
	}{
		{in: ""},
		{in: "endpoints", endpoints: true},
		{in: "id=^kube__", ids: []string{"^kube__"}},
		{in: "endpoints,id=^a{1,2}$", endpoints: true, ids: []string{"^a{1,2}$"}},
		{in: "id=a,b,endpoints", endpoints: true, ids: []string{"a,b"}},
		{in: "id=a,id=b,endpoints,id=endpoints,x", endpoints: true, ids: []string{"a", "b", "endpoints,x"}},
		{in: "endpoint", err: `"endpoint": must be endpoints or id=REGEX`},
		{in: "endpoints,", err: `"": must be endpoints or id=REGEX`},
		{in: ",endpoints", err: `"": must be endpoints or id=REGEX`},
		{in: "id=", err: `the expression is empty`},
		{in: "id=(", err: "missing closing )"},
	} {
		got, err := shadowdiff.ParseIgnore(c.in)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("ParseIgnore(%q): error %v, want %s", c.in, err, c.err)
			}
			continue
		}
		var ids []string
		for _, rx := range got.IDs {
			ids = append(ids, rx.String())
		}
		if err != nil || got.Endpoints != c.endpoints || !cmp.Equal(ids, c.ids) {
			t.Errorf("ParseIgnore(%q) = %v %q, %v", c.in, got.Endpoints, ids, err)
		}
	}
}

func TestIgnoredDifferencesAreCountedOnly(t *testing.T) {
	a := parse(t, `missing: * -> <shunt>; old: Foo() -> <dynamic>; endpoints: * -> <"http://a", "http://b?zone=x">;
		both: * -> f(1) -> <"http://a">; same: Bar() -> <shunt>; type: * -> <"http://a">`)
	b := parse(t, `extra: * -> <loopback>; new: Foo() -> <dynamic>; endpoints: * -> <"http://c", "http://b?zone=y">;
		both: * -> f(2) -> <"http://b">; same: Bar() -> <shunt>; type: * -> <shunt>`)
	whole := shadowdiff.Diff(a, b)
	before := outline(whole)
	for _, c := range []struct {
		ignore string
		want   []string
		n      int
	}{
		{"", before, 0},
		{"endpoints", []string{
			"changed both", "filter 1 replaced [f(1)] [f(2)]",
			"extra extra", "missing missing", "extra new", "missing old", "changed type", `backend replaced [<"http://a">] [<shunt>]`,
		}, 1},
		{"id=^(missing|extra|new|both)$", []string{
			"changed endpoints", "endpoint removed [http://a] []",
			"zone replaced [http://b?zone=x] [http://b?zone=y]", "endpoint added [] [http://c]", "missing old", "changed type", `backend replaced [<"http://a">] [<shunt>]`,
		}, 4},
		{"endpoints,id=.", nil, 7},
	} {
		i, err := shadowdiff.ParseIgnore(c.ignore)
		if err != nil {
			t.Fatal(err)
		}
		r := whole.Without(i)
		if diff := cmp.Diff(c.want, outline(r)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.ignore, diff)
		}
		if r.Ignored != c.n || r.Equal != 1 {
			t.Errorf("%s: %d ignored, %d equal; want %d and 1", c.ignore, r.Ignored, r.Equal, c.n)
		}
	}
	if diff := cmp.Diff(before, outline(whole)); diff != "" {
		t.Errorf("Without has changed the report:\n%s", diff)
	}
}
