package server

import (
	"testing"

	"github.com/routesrv/routesrv/kube"
)

func TestNewestChangeNamesObjectAndAuthor(t *testing.T) {
	ingress := func(name, changed string) *kube.Ingress {
		return &kube.Ingress{Meta: kube.Meta{Namespace: "shop", Name: name, Changed: changed}}
	}
	s := &kube.Snapshot{Intent: kube.Intent{
		Ingresses:   []*kube.Ingress{ingress("old-app", "2026-11-21T10:00:00Z kubectl"), ingress("new-app", "2026-11-22T10:00:00Z argocd-controller"), ingress("unknown", "")},
		RouteGroups: []*kube.RouteGroup{{Meta: kube.Meta{Namespace: "shop", Name: "group", Changed: "2026-11-22T09:59:59Z helm"}}},
	}}
	c := newestChange(s)
	if c == nil || c.Object.String() != "Ingress shop/new-app" || c.By != "argocd-controller" || c.At.Day() != 22 {
		t.Errorf("%+v", c)
	}
	if c := newestChange(&kube.Snapshot{}); c != nil {
		t.Errorf("of nothing: %+v", c)
	}
	if c := newestChange(nil); c != nil {
		t.Errorf("without a snapshot: %+v", c)
	}
}
