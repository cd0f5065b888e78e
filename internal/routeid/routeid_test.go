package routeid_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/internal/routeid"
)

func TestIDs(t *testing.T) {
	for want, got := range map[string]string{
		"kube_shop__cart__www_example_org___api__back_end":   routeid.Ingress("shop", "cart", "www.example.org", "/api", "back-end"),
		"kube_shop__cart______":                              routeid.Ingress("shop", "cart", "", "", ""),
		"kube_shop__c_rt__www____":                           routeid.Ingress("shop", "cärt", "www", "", ""),
		"kube_shop__cart_mine_0__www_api____":                routeid.Custom("shop", "cart", "mine", 0, "www", "/api"),
		"kube___catchall__www_example_org____":               routeid.CatchAll("www.example.org"),
		"kubeew_shop__cart______":                            routeid.EastWest("kube_shop__cart______"),
		"kube_rg__shop__cart__all__0_0":                      routeid.RouteGroup("shop", "cart", "all", 0, 0, false),
		"kube_rg__shop__c__rt__get_post__12_3":               routeid.RouteGroup("shop", "cärt", "get_post", 12, 3, false),
		"kube_rg__internal_shop__cart__all__0_1":             routeid.RouteGroup("shop", "cart", "all", 0, 1, true),
		"kube_rg____www_example_org__catchall__0_0":          routeid.RouteGroupCatchAll("www.example.org", false),
		"kube_rg__internal___www_example_org__catchall__0_0": routeid.RouteGroupCatchAll("www.example.org", true),
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestObjectKey: names with "--" are told apart.
func TestObjectKey(t *testing.T) {
	host := func(host string) string { return strings.ReplaceAll(host, ".", "[.]") + "[.]?(:[0-9]+)?" }
	for _, c := range []struct{ id, host, want string }{
		{routeid.Ingress("a--b", "c-d", "www.example.org", "/api", "x"), host("www.example.org"), "a__b__c_d"},
		{routeid.Ingress("a", "b--c", "c.org", "/c.org/", "c-org"), host("c.org"), "a__b__c"},
		{routeid.Ingress("a", "c-org", "c.org", "/", "c-org"), host("c.org"), "a__c_org"},
		{routeid.EastWest(routeid.Ingress("a--b", "c-d", "www", "", "x")), host("www"), "a__b__c_d"},
		{"clone_" + routeid.Ingress("a--b", "c-d", "www", "", "x"), host("www"), "a__b__c_d"},
		{routeid.Ingress("a--b", "c-d", "www", "", "x"), host("elsewhere"), "a__b"},
		{routeid.Custom("a", "b", "mine", 0, "www", "/api"), host("www"), "a__b_mine_0"},
		{routeid.RouteGroup("a--b", "c--d", "get_post", 12, 3, true), "", "a__b__c__d"},
		{routeid.RouteGroup("a--b", "c--d", "all", 0, 0, false) + routeid.SuffixRedirect, "", "a__b__c__d"},
		{routeid.RouteGroup("rg", "rg", "all", 0, 0, false), "", "rg__rg"},
		{routeid.RouteGroup("internal", "a", "all", 0, 0, false), "", "internal__a"},
		{routeid.CatchAll("www"), host("www"), ""},
		{routeid.HealthzUp, "", ""},
	} {
		if _, key := routeid.ObjectKey(c.id, slices.Values([]string{c.host})); key != c.want {
			t.Errorf("%s at %s: got %q, want %q", c.id, c.host, key, c.want)
		}
	}
}

func TestCustomNames(t *testing.T) {
	for id, want := range map[string][]string{
		routeid.Custom("shop", "cart", "mine", 0, "www", "/api"):        {"cart"},
		routeid.Custom("shop", "my-cart", "old-api", 12, "www", ""):     {"my_cart_old", "my_cart", "my"},
		"clone_" + routeid.Custom("shop", "cart", "mine", 0, "www", ""): {"cart"},
		routeid.Custom("shop", "cart", "", 0, "www", ""):                nil, // ObjectOf has the name
		routeid.Ingress("shop", "cart-v-2", "www", "/api", "cart"):      nil,
		routeid.RouteGroup("shop", "cart-v-2", "all", 0, 0, false):      nil,
		"kube_shop___0__www____":                                        nil,
		"kube__healthz_up":                                              nil,
	} {
		if got := routeid.CustomNames(id); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
}

func TestOwnerOf(t *testing.T) {
	ingress := func(namespace, name string) routeid.Owner {
		return routeid.Owner{Kind: routeid.KindIngress, Namespace: namespace, Name: name}
	}
	group := func(namespace, name string) routeid.Owner {
		return routeid.Owner{Kind: routeid.KindRouteGroup, Namespace: namespace, Name: name}
	}
	generated, other := routeid.Owner{Kind: routeid.KindGenerated}, routeid.Owner{Kind: routeid.KindOther}
	for id, want := range map[string]routeid.Owner{
		"kube_rg__shop__cart__all__0_0":                        group("shop", "cart"),
		"kube_rg__shop__my_app__get_post__12_3":                group("shop", "my_app"),
		"kube_rg__shop__cart__all__0_0_https_redirect":         group("shop", "cart"),
		"kube_rg__shop__cart__all__0_0_disable_https_redirect": group("shop", "cart"),
		"kube_rg__internal_shop__cart__all__0_0":               group("shop", "cart"),
		"kube_rg__internal__cart__all__0_0":                    group("internal", "cart"),
		"kube_rg__internal_internal__cart__all__0_0":           group("internal", "cart"),
		"kube_shop__cart__www_example_org___api__backend":      ingress("shop", "cart"),
		"kube_shop__cart______":                                ingress("shop", "cart"),
		"kube_rg__cart__www_example_org____backend":            ingress("rg", "cart"),
		"kube_shop__cart_mine_0__www_api____":                  ingress("shop", "cart_mine_0"),
		"kube_shop__cart_https_redirect":                       other,
		"kube_rg____www_example_org__catchall__0_0":            generated,
		"kube_rg__internal___www_example_org__catchall__0_0":   generated,
		"kube___catchall__www_example_org____":                 generated,
		"kube__healthz_up":                                     generated,
		"kube__healthz_down":                                   generated,
		"kube__redirect":                                       generated,
		"kubeew_shop__cart__www____":                           generated,
		"clone_kube_rg__shop__cart__all__0_0":                  generated,
		"__oauth2_grant_callback":                              generated,
		"kube_":                                                other,
		"kube_rg__x0_0":                                        other,
		"kube_rg__0_0":                                         other,
		"mine":                                                 other,
		"":                                                     other,
	} {
		if got := routeid.OwnerOf(id); got != want {
			t.Errorf("OwnerOf(%q) = %+v, want %+v", id, got, want)
		}
	}
}

func TestNamespaceOf(t *testing.T) {
	for id, want := range map[string]string{
		"kube_rg__shop__cart__all__0_0":                        "shop",
		"kube_rg__shop__cart__all__0_0_https_redirect":         "shop",
		"kube_rg__shop__cart__all__0_0_disable_https_redirect": "shop",
		"kube_rg__internal_team_a__cart__all__0_0":             "team_a",
		"kube_shop__cart__www_example_org___api__backend":      "shop",
		"kube_shop__cart______":                                "shop",
		"kube_rg__cart__www_example_org____backend":            "rg",
		"kubeew_shop__cart__www____":                           "shop",
		"kubeew_rg__shop__cart__all__0_0":                      "shop",
		"clone_kube_rg__shop__cart__all__0_0":                  "shop",
		"clone_clone_kubeew_shop__cart__www____":               "shop",
		"clone_kube__redirect":                                 "",
		"clone_kube_rg____www_example_org__catchall__0_0":      "",
		"kube_rg__internal___www_example_org__catchall__0_0":   "",
		"kube___catchall__www_example_org____":                 "",
		"kube__healthz_up":                                     "",
		"__oauth2_grant_callback":                              "",
		"kube_shop__cart_https_redirect":                       "",
		"kubeew_":                                              "",
		"clone_":                                               "",
		"mine":                                                 "",
		"":                                                     "",
	} {
		if got := routeid.NamespaceOf(id); got != want {
			t.Errorf("NamespaceOf(%q) = %q, want %q", id, got, want)
		}
	}
}

func TestGenerated(t *testing.T) {
	for id, want := range map[string]bool{
		routeid.HealthzUp: true, routeid.HealthzDown: true, routeid.Redirect: true, routeid.OAuthCallback: true,
		"clone_kube__redirect": true, "clone_clone_kube__healthz_up": true,
		"kube___catchall__www____": false, "kube_shop__cart______": false, "clone_kube_shop__cart______": false, "clone_": false,
		"kube__redirect2": false, "kubeew_shop__cart______": false, "": false,
	} {
		if got := routeid.Generated(id); got != want {
			t.Errorf("Generated(%q) = %t", id, got)
		}
	}
}

// TestClonePrefixIsThatOfClones: package eskip has its own constant for the prefix, as Skipper's has.
func TestClonePrefixIsThatOfClones(t *testing.T) {
	routes := eskip.NewClone(regexp.MustCompile("old"), "new").Do(eskip.MustParse(`a: Host("old") -> <shunt>`))
	if len(routes) != 2 || routes[1].Id != routeid.ClonePrefix+"a" {
		t.Errorf("clones: %s", eskip.String(routes...))
	}
}

// FuzzOwnerOf: an id made of plain names is split into these names, and any text can be handled.
func FuzzOwnerOf(f *testing.F) {
	for _, s := range []string{"a", "rg", "internal", "kube", "all", "0", "catchall", "a_b", "a__b", "_", "ä", "", "x-y.z"} {
		f.Add(s, "cart", "www.example.org", 0, 0, false)
		f.Add("shop", s, s, 1, 12, true)
	}
	f.Fuzz(func(t *testing.T, namespace, name, rest string, i, j int, internal bool) {
		_ = routeid.OwnerOf(namespace + name + rest)
		for _, s := range []string{namespace, name} {
			if !plain.MatchString(s) || strings.Contains(s, "__") {
				return
			}
		}
		i, j = max(i, 0), max(j, 0)
		if got, want := routeid.OwnerOf(routeid.RouteGroup(namespace, name, "all", i, j, internal)),
			(routeid.Owner{Kind: routeid.KindRouteGroup, Namespace: namespace, Name: name}); got != want && (internal || !strings.HasPrefix(namespace, "internal_")) {
			t.Errorf("got %+v, want %+v", got, want)
		}
		id := routeid.RouteGroup(namespace, name, "all", i, j, internal)
		if got, want := routeid.NamespaceOf(routeid.ClonePrefix+routeid.EastWest(id)), routeid.OwnerOf(id).Namespace; got != want {
			t.Errorf("namespace of a companion: got %q, want %q", got, want)
		}
		if got, want := routeid.OwnerOf(routeid.Ingress(namespace, name, "www", "", rest+"-")),
			(routeid.Owner{Kind: routeid.KindIngress, Namespace: namespace, Name: name}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

var plain = regexp.MustCompile(`^[0-9A-Za-z]([0-9A-Za-z_]*[0-9A-Za-z])?$`)
