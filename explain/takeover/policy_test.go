package takeover_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/explain/takeover"
	"github.com/routesrv/routesrv/shadowdiff"
)

func TestParsePolicy(t *testing.T) {
	for text, want := range map[string]int{"": 0, "none": 0, "namespace": 1, "namespace:1": 1, "namespace:2": 2, "namespace:1000": 1000} {
		p, err := takeover.ParsePolicy(text)
		if err != nil || p.Routes != want {
			t.Errorf("%q: %+v, %v, want %d routes", text, p, err, want)
		}
		if again, err := takeover.ParsePolicy(p.String()); err != nil || again != p {
			t.Errorf("%q is printed as %q, which is read as %+v, %v", text, p, again, err)
		}
	}
	for _, text := range []string{
		"namespace:", "namespace:0", "namespace:-1", "namespace:1.5", "namespace:two", "namespace:1:2", "namespace: 1", "Namespace", "object", "none:1",
		":1", "1", " none", "namespace:99999999999999999999",
	} {
		if p, err := takeover.ParsePolicy(text); err == nil || p != (takeover.Policy{}) || !strings.Contains(err.Error(), "must be none, namespace or namespace:N") {
			t.Errorf("%q: %+v, %v, want an error", text, p, err)
		}
	}
}

func object(name string) shadowdiff.Owner {
	namespace, name, _ := strings.Cut(name, "/")
	return shadowdiff.Owner{Kind: "Ingress", Namespace: namespace, Name: name}
}

// taken is what one object takes from the routes of another one. Each route is lost to a route of the same number.
func taken(from, to string, routes ...string) takeover.Takeover {
	t := takeover.Takeover{From: object(from), To: object(to), Lost: len(routes)}
	for _, r := range routes {
		t.Taken = append(t.Taken, takeover.Taken{Route: from + r, By: to + r, Request: takeover.Request{Method: "GET", URL: "https://" + r + ".example.org/"}})
	}
	return t
}

func TestPolicyRefuses(t *testing.T) {
	const first = "takes GET https://1.example.org/: Ingress shop/a -> Ingress evil/all"
	for _, c := range []struct {
		name    string
		routes  int
		taken   []takeover.Takeover
		allowed string // the losing object that lets everybody
		want    map[string]string
	}{
		{"nothing is taken", 1, nil, "", map[string]string{}},
		{"the zero value lets everything pass", 0, []takeover.Takeover{taken("shop/a", "evil/all", "1", "2")}, "", nil},
		{"one route", 1, []takeover.Takeover{taken("shop/a", "evil/all", "1")}, "", map[string]string{"evil/all1": first}},
		{"fewer than the limit", 3, []takeover.Takeover{taken("shop/a", "evil/all", "1", "2")}, "", map[string]string{}},
		{"routes of several objects add up", 3, []takeover.Takeover{taken("shop/a", "evil/all", "1", "2"), taken("pay/b", "evil/all", "3")}, "", map[string]string{
			"evil/all1": first + ", and requests of 2 more routes of other namespaces", "evil/all2": first + ", and requests of 2 more routes of other namespaces",
			"evil/all3": first + ", and requests of 2 more routes of other namespaces",
		}},
		{"those of several takers do not", 2, []takeover.Takeover{taken("shop/a", "evil/all", "1"), taken("shop/a", "evil/more", "2")}, "", map[string]string{}},
		{"the own namespace does not count", 2, []takeover.Takeover{taken("shop/a", "evil/all", "1"), taken("evil/b", "evil/all", "2")}, "", map[string]string{}},
		{"what is allowed does not count", 2, []takeover.Takeover{taken("shop/a", "evil/all", "1"), taken("pay/b", "evil/all", "2", "3")}, "pay/b", map[string]string{}},
		{"others count even so", 1, []takeover.Takeover{taken("pay/b", "evil/all", "2"), taken("shop/a", "evil/all", "1")}, "pay/b", map[string]string{"evil/all1": first}},
	} {
		got := takeover.Policy{Routes: c.routes}.Refused(&takeover.Report{Takeovers: c.taken}, func(from, _ shadowdiff.Owner) bool { return from == object(c.allowed) })
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}
