package webhook_test

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/source/manifests"
)

// TestReviewsKnowCatchAlls: the host of the last object differs from that of another one only in punctuation, so it loses its catch-all. The review says so,
// in the words of /problems.
func TestReviewsKnowCatchAlls(t *testing.T) {
	source, err := manifests.New(manifests.Config{Paths: []string{"testdata/catchall-duplicate.yaml"}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := source.Read(t.Context(), kube.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/catchall-duplicate.yaml")
	if err != nil {
		t.Fatal(err)
	}
	object, err := yaml.YAMLToJSON(text[bytes.LastIndex(text, []byte("---")):])
	if err != nil {
		t.Fatal(err)
	}
	last := s.Ingresses[len(s.Ingresses)-1]
	before := *s
	before.Ingresses = slices.Clone(s.Ingresses[:len(s.Ingresses)-1])
	verdict, err := newJudge(t, &before, rules.Options{}, kube.Selection{}).Review(kube.KindIngress, object, nil)
	if err != nil {
		t.Fatal(err)
	}
	compiler, err := compile.New(rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := compiler.Compile(s).ProblemsOf(last.Ref())
	if len(want) != 1 || want[0].Reason != rules.DuplicateID || !strings.Contains(want[0].Detail, "foo.bar.example.org gets no catch-all") {
		t.Fatalf("/problems has %v", want)
	}
	if got := slices.Concat(verdict.Refused, verdict.Warnings); !cmp.Equal(reasons(want), reasons(got)) || got[0].Detail != want[0].Detail {
		t.Errorf("the review has %v, want %v", got, want)
	}
}
