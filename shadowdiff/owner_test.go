package shadowdiff_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/shadowdiff"
)

func TestOwnerOf(t *testing.T) {
	for _, c := range []struct{ id, want string }{
		{"kube_rg__shop__cart__all__0_0", "RouteGroup shop/cart"},
		{"kube_rg__shop__my_app__get_post__12_3", "RouteGroup shop/my_app"},
		{"kube_rg__shop__cart__all__0_0_https_redirect", "RouteGroup shop/cart"},
		{"kube_rg__shop__cart__all__0_0_disable_https_redirect", "RouteGroup shop/cart"},
		{"kube_rg__internal_shop__cart__all__0_0", "RouteGroup shop/cart"},
		{"kube_shop__cart__www_example_org___api__backend", "Ingress shop/cart"},
		{"kube_shop__cart______", "Ingress shop/cart"},
		{"kube_rg__cart__www_example_org____backend", "Ingress rg/cart"},
		{"kube_shop__cart_https_redirect", "other routes"},
		{"kube_rg____www_example_org__catchall__0_0", "generated routes"},
		{"kube_rg__internal___www_example_org__catchall__0_0", "generated routes"},
		{"kube___catchall__www_example_org____", "generated routes"},
		{"kube__healthz_up", "generated routes"},
		{"kube__redirect", "generated routes"},
		{"kubeew_shop__cart__www____", "generated routes"},
		{"clone_kube_rg__shop__cart__all__0_0", "generated routes"},
		{"__oauth2_grant_callback", "generated routes"},
		{"kube_", "other routes"},
		{"kube_rg__x0_0", "other routes"},
		{"kube_rg__0_0", "other routes"},
		{"mine", "other routes"},
		{"", "other routes"},
	} {
		if got := shadowdiff.OwnerOf(c.id).String(); got != c.want {
			t.Errorf("OwnerOf(%q) = %s, want %s", c.id, got, c.want)
		}
	}
}

func TestGroupsAskWhoKnows(t *testing.T) {
	v := shadowdiff.View{
		Report: shadowdiff.Diff(parse(t, `kube__redirect: * -> <shunt>; kube_rg__b__x__all__0_0: Foo() -> <shunt>; own: Bar() -> <shunt>;
			kube_rg__b__my_app__all__0_0: Baz() -> <shunt>; kube_a__z____: Qux() -> <shunt>`), nil),
		Owner: func(id string) (kind, namespace, name string) {
			if strings.Contains(id, "my_app") {
				return "RouteGroup", "b", "my-app"
			}
			return "", "", ""
		},
	}
	var got []string
	for _, g := range v.Groups() {
		got = append(got, g.Owner.String())
	}
	want := []string{"Ingress a/z", "RouteGroup b/my-app", "RouteGroup b/x", "generated routes", "other routes"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := (shadowdiff.Owner{Kind: "Service", Name: "x"}).String(); got != "Service x" {
		t.Error(got)
	}
}
