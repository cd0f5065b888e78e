package shadowdiff_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/shadowdiff"
)

func TestOwnerOf(t *testing.T) {
	for _, c := range []struct{ id, want string }{
		{"kube_rg__shop__cart__all__0_0", "RouteGroup shop/cart (from the id)"},
		{"kube_rg__shop__my_app__get_post__12_3", "RouteGroup shop/my-app or shop/my.app (from the id)"},
		{"kube_rg__shop__cart__all__0_0_https_redirect", "RouteGroup shop/cart (from the id)"},
		{"kube_rg__shop__cart__all__0_0_disable_https_redirect", "RouteGroup shop/cart (from the id)"},
		{"kube_rg__internal_shop__cart__all__0_0", "RouteGroup shop/cart (from the id)"},
		{"kube_shop__cart__www_example_org___api__backend", "Ingress shop/cart (from the id)"},
		{"kube_shop__cart______", "Ingress shop/cart (from the id)"},
		{"kube_rg__cart__www_example_org____backend", "Ingress rg/cart (from the id)"},
		{"kube_shop_prod__app_0__www_example_org___api__backend", "Ingress shop-prod/app-0 or shop-prod/app.0 (from the id)"},
		{"kube_shop__a_b_c_d__www____", "Ingress shop/a[-.]b[-.]c[-.]d (from the id; [-.] is a dash or a dot)"},
		{"kube_shop__app_canary_0__www____", "Ingress shop/app[-.]canary[-.]0 (from the id; [-.] is a dash or a dot, or the name ends earlier and the rest is the id of a custom route)"},
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
	v := shadowdiff.Comparison{
		Report: shadowdiff.Diff(parse(t, `kube__redirect: * -> <shunt>; kube_rg__b__x__all__0_0: Foo() -> <shunt>; own: Bar() -> <shunt>;
			kube_rg__b__my_app__all__0_0: Baz() -> <shunt>; kube_a__z____: Qux() -> <shunt>`), nil),
		Owner: func(id string) shadowdiff.Owner {
			if strings.Contains(id, "my_app") {
				return shadowdiff.Owner{Kind: "RouteGroup", Namespace: "b", Name: "my-app"}
			}
			return shadowdiff.Owner{}
		},
	}
	var got []string
	for _, g := range v.Groups() {
		got = append(got, g.Owner.String())
	}
	want := []string{"Ingress a/z (from the id)", "RouteGroup b/my-app", "RouteGroup b/x (from the id)", "generated routes", "other routes"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := (shadowdiff.Owner{Kind: "Service", Name: "x"}).String(); got != "Service x" {
		t.Error(got)
	}
}

func TestOwnerInJSONHasNoNameThatMayNotExist(t *testing.T) {
	for _, c := range []struct {
		owner shadowdiff.Owner
		want  string
	}{
		{shadowdiff.Owner{Kind: "Ingress", Namespace: "shop", Name: "app-0"}, `{"kind":"Ingress","namespace":"shop","name":"app-0"}`},
		{shadowdiff.OwnerOf("kube_shop_eu__app_0__www____"), `{"kind":"Ingress","namespace":"shop-eu","from_id":true,"candidates":["shop-eu/app-0","shop-eu/app.0"]}`},
		{shadowdiff.OwnerOf("kube_shop__a_b_c_d__www____"), `{"kind":"Ingress","namespace":"shop","from_id":true}`},
		{shadowdiff.OwnerOf("kube__redirect"), `{"kind":"generated"}`},
	} {
		got, err := json.Marshal(c.owner)
		if err != nil || string(got) != c.want {
			t.Errorf("%+v: %s (%v), want %s", c.owner, got, err, c.want)
		}
	}
}
