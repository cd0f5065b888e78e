//go:build linux

package release_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	slsa "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/routesrv/routesrv/internal/image"
	"github.com/routesrv/routesrv/internal/release"
)

// wantProvenance reads the provenance with the libraries of in-toto, which refuse fields that the specifications do not have.
func wantProvenance(t *testing.T, c release.Config, dir, sums string) {
	text, err := os.ReadFile(filepath.Join(dir, release.ProvenanceFile(c.Version)))
	if err != nil {
		t.Fatal(err)
	}
	var s intoto.Statement
	if err := protojson.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
	if s.GetType() != "https://in-toto.io/Statement/v1" || s.GetPredicateType() != "https://slsa.dev/provenance/v1" {
		t.Errorf("type %s, predicate %s", s.GetType(), s.GetPredicateType())
	}
	predicate, err := protojson.Marshal(s.GetPredicate())
	if err != nil {
		t.Fatal(err)
	}
	var p slsa.Provenance
	if err := protojson.Unmarshal(predicate, &p); err != nil {
		t.Fatal(err)
	}
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
	wantSubjects(t, c, dir, sums, s.GetSubject())

	const page = "https://github.com/routesrv/routesrv/blob/main/docs/release.md#"
	if b := p.GetRunDetails().GetBuilder(); b.GetId() != page+"make-a-release" || !strings.HasPrefix(b.GetVersion()["go"], "go1.") {
		t.Errorf("builder %v", b)
	}
	if got := p.GetBuildDefinition().GetBuildType(); got != page+"provenance" {
		t.Errorf("build type %s", got)
	}
	want := map[string]any{
		"version": c.Version, "revision": c.Revision, "created": c.Time.UTC().Format("2006-01-02T15:04:05Z"), "architectures": []any{"amd64", "arm64"},
		"plugins": []any{"linux/amd64", "darwin/arm64", "windows/amd64"}, "download": "https://github.com/routesrv/routesrv/releases/download/" + c.Version,
	}
	if diff := cmp.Diff(want, p.GetBuildDefinition().GetExternalParameters().AsMap()); diff != "" {
		t.Errorf("parameters (-want +got):\n%s", diff)
	}
	dependencies := p.GetBuildDefinition().GetResolvedDependencies()
	if d := dependencies[0]; d.GetUri() != "git+https://github.com/routesrv/routesrv" || d.GetDigest()["gitCommit"] != c.Revision {
		t.Errorf("sources %v", d)
	}
	linked := map[string]string{}
	for _, d := range dependencies[1:] {
		linked[d.GetUri()] = d.GetDigest()["dirHash"]
	}
	for _, m := range listedModules(t, filepath.Join(dir, "routesrv_"+c.Version+"_linux_amd64.cdx.json")) {
		if sum, ok := linked[m.Purl]; !ok || len(m.Hashes) > 0 && m.Hashes[0].Content != sum {
			t.Errorf("the bill of materials has %+v, the provenance %q", m, sum)
		}
	}
}

// wantSubjects wants every file with its checksum, and what registries get.
func wantSubjects(t *testing.T, c release.Config, dir, sums string, subjects []*intoto.ResourceDescriptor) {
	t.Helper()
	want, got := map[string]string{}, map[string]string{}
	for line := range strings.Lines(sums) {
		if sum, name, _ := strings.Cut(strings.TrimSpace(line), "  "); name != release.ProvenanceFile(c.Version) {
			want[name] = sum
		}
	}
	for name, file := range map[string]string{"routesrv": release.ImageFile(c.Version), "routesrv-manifests": release.ManifestsFile(c.Version)} {
		digest, err := image.Digest(unpacked(t, filepath.Join(dir, file)))
		if err != nil {
			t.Fatal(err)
		}
		want[name] = digest.Hex
	}
	for _, s := range subjects {
		got[s.GetName()] = s.GetDigest()["sha256"]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("subjects (-want +got):\n%s", diff)
	}
}

type listedModule struct {
	Name, Purl string
	Hashes     []struct{ Content string }
}

// listedModules reads the modules of a bill of materials.
func listedModules(t *testing.T, path string) []listedModule {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var bom struct{ Components []listedModule }
	if err := json.Unmarshal(text, &bom); err != nil {
		t.Fatal(err)
	}
	if len(bom.Components) < 2 {
		t.Errorf("%s lists %+v", path, bom.Components)
	}
	return bom.Components
}
