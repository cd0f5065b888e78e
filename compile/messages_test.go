package compile_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/kube"
)

// TestPromisedMessages checks what docs/reference/differences.md promises about the beginning of messages that differ from the reference.
// The conformance cases check the messages that are identical.
func TestPromisedMessages(t *testing.T) {
	const host = "a.example.org"
	path := func(path, pathType string) kube.IngressPath {
		return kube.IngressPath{Path: path, PathType: pathType, Backend: &kube.IngressBackend{Service: "s", PortNumber: 80}}
	}
	ingress := func(annotations map[string]string, paths ...kube.IngressPath) *kube.Ingress {
		return &kube.Ingress{
			Meta: kube.Meta{Namespace: "ns", Name: "i", Annotations: kube.PairsOf(annotations)},
			Spec: &kube.IngressSpec{
				DefaultBackend: &kube.IngressBackend{Service: "s", PortNumber: 80},
				Rules:          []kube.IngressRule{{Host: host, HTTP: true, Paths: paths}},
			},
		}
	}
	service := &kube.Service{Namespace: "ns", Name: "s", Ports: []kube.ServicePort{{Port: 80, TargetPort: kube.NumberPort(80)}}}
	edit := func(from, to string) *eskip.Editor { return eskip.NewEditor(regexp.MustCompile(from), to) }
	for _, c := range []struct {
		options  rules.Options
		snapshot kube.Snapshot
		message  string // how it begins
		ends     string // and how it ends
		cause    string
	}{
		{
			snapshot: kube.Snapshot{Intent: kube.Intent{Ingresses: []*kube.Ingress{
				ingress(map[string]string{"zalando.org/skipper-routes": `r: Path("/x") -> <shunt>`}, path("/a", "Exact")),
			}}},
			message: "Ignoring route due to multiple path predicates: 2 path predicates, route: ",
		},
		{
			snapshot: kube.Snapshot{Intent: kube.Intent{Ingresses: []*kube.Ingress{ingress(nil, path("/x-y", "Exact"), path("/x_y", "Exact"))}}},
			message: `Ignoring route with the same id kube_ns__i__a_example_org___x_y__s, ` +
				`existing: Host(/^(a[.]example[.]org[.]?(:[0-9]+)?)$/) && Path("/x-y") -> status(502) -> inlineContent("no endpoints") -> <shunt>, ` +
				`ignored: Host(/^(a[.]example[.]org[.]?(:[0-9]+)?)$/) && Path("/x_y") -> status(502) -> inlineContent("no endpoints") -> <shunt>`,
			ends: "<shunt>", // one owner: no other owner is named
		},
		{
			options:  rules.Options{EditRoutes: []*eskip.Editor{edit(`Path[(].*`, `broken(`)}},
			snapshot: kube.Snapshot{Intent: kube.Intent{Ingresses: []*kube.Ingress{ingress(nil, path("/a", "Exact"))}}},
			message:  "Failed to parse predicate: parse failed after token (, position 7: syntax error",
		},
		{
			options:  rules.Options{CloneRoutes: []*eskip.Clone{eskip.NewClone(regexp.MustCompile(`status[(].*`), `broken(`)}},
			snapshot: kube.Snapshot{Intent: kube.Intent{Ingresses: []*kube.Ingress{ingress(nil, path("/a", "Exact"))}}},
			message:  "Failed to parse filter: parse failed after token (, position 7: syntax error",
		},
		{
			snapshot: kube.Snapshot{Intent: kube.Intent{DefaultFilters: &kube.DefaultFilters{Err: errors.New("open /filters: no such file or directory")}}},
			message:  "could not fetch default filter configurations",
			ends:     "configurations",
			cause:    "open /filters: no such file or directory",
		},
		{
			// The numbers count routes before duplicates and edits: default backend, two routes of one id, two companions, and
			// the catch-all of either host.
			options:  rules.Options{EastWest: true, CloneRoutes: []*eskip.Clone{eskip.NewClone(regexp.MustCompile(`status`), `x`)}},
			snapshot: kube.Snapshot{Intent: kube.Intent{Ingresses: []*kube.Ingress{ingress(nil, path("/x-y", ""), path("/x_y", ""))}}},
			message:  "Enabled east west routes: 7 8 1 2",
			ends:     "2",
		},
	} {
		c.snapshot.Services = []*kube.Service{service}
		found := false
		for _, p := range mustCompiler(t, c.options).Compile(&c.snapshot).Problems {
			found = found || strings.HasPrefix(p.Message, c.message) && strings.HasSuffix(p.Message, c.ends) && p.Cause == c.cause
		}
		if !found {
			t.Errorf("no message %q ... %q with the cause %q among %v", c.message, c.ends, c.cause,
				mustCompiler(t, c.options).Compile(&c.snapshot).Problems)
		}
	}
}
