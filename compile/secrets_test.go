package compile_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/kube"
)

// A secret is looked up again when it changes. A secret without metadata cannot be referred to, whatever it contains.
func TestSecretsAreFollowed(t *testing.T) {
	c := readGoldenCase(t, "testdata/ingress-20-certificates.txtar")
	compiler := mustCompiler(t, c.options)
	at := slices.IndexFunc(c.snapshot.Secrets, func(s *kube.Secret) bool { return s.Name == "new" })
	with := func(change func(*kube.Secret)) *kube.Snapshot {
		next, secret := *c.snapshot, *c.snapshot.Secrets[at]
		change(&secret)
		next.Secrets = slices.Clone(next.Secrets)
		next.Secrets[at] = &secret
		return &next
	}
	const missing, wrong, newer = "Failed to find secret new in namespace ns", "secret new is not of type", "updating certificate in registry - a.example.org"
	for _, step := range []struct {
		name     string
		snapshot *kube.Snapshot
		want     string
	}{
		{"as it is", c.snapshot, newer},
		{"without metadata", with(func(s *kube.Secret) { s.Incomplete = true }), missing},
		{"of another type", with(func(s *kube.Secret) { s.Type = "Opaque" }), wrong},
		{"the same in a new object", with(func(*kube.Secret) {}), newer},
		{"of another name", with(func(s *kube.Secret) { s.Name = "renamed" }), missing},
		{"in the namespace of no name", with(func(s *kube.Secret) { s.Namespace = "" }), missing},
		{"back", c.snapshot, newer},
	} {
		got := problemsText(compiler.Compile(step.snapshot))
		for _, text := range []string{missing, wrong, newer} {
			if strings.Contains(got, text) != (text == step.want) {
				t.Errorf("%s: want %q and none of the others in\n%s", step.name, step.want, got)
			}
		}
	}
}
