package release

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Types that a provenance statement declares.
const (
	StatementType = "https://in-toto.io/Statement/v1"
	PredicateType = "https://slsa.dev/provenance/v1"
	// buildType is the page that explains the parameters.
	buildType = "https://" + ourModule + "/blob/main/docs/release.md#provenance"
	// unhosted is the builder when none is configured: some unspecified machine.
	unhosted = "https://" + ourModule + "/blob/main/docs/release.md#make-a-release"
)

// The statement, as defined by in-toto and SLSA.
type (
	statement struct {
		Type          string     `json:"_type"`
		Subject       []resource `json:"subject"`
		PredicateType string     `json:"predicateType"`
		Predicate     provenance `json:"predicate"`
	}
	provenance struct {
		BuildDefinition buildDefinition `json:"buildDefinition"`
		RunDetails      runDetails      `json:"runDetails"`
	}
	buildDefinition struct {
		BuildType            string         `json:"buildType"`
		ExternalParameters   map[string]any `json:"externalParameters"`
		ResolvedDependencies []resource     `json:"resolvedDependencies"`
	}
	runDetails struct {
		Builder builder `json:"builder"`
	}
	builder struct {
		ID      string            `json:"id"`
		Version map[string]string `json:"version,omitempty"`
	}
	resource struct {
		Name   string            `json:"name,omitempty"`
		URI    string            `json:"uri,omitempty"`
		Digest map[string]string `json:"digest,omitempty"`
	}
)

// ingredients collects the modules linked into the programs of a release.
type ingredients struct {
	modules   map[module]bool
	goVersion string
}

func (i *ingredients) add(dir string, p platform, binaries []string) error {
	all, goVersion, err := modules(dir, p, binaries)
	if err != nil {
		return err
	}
	if i.modules == nil {
		i.modules = map[module]bool{}
	}
	for _, m := range all {
		i.modules[m] = true
	}
	i.goVersion = goVersion
	return nil
}

// writeProvenance records which sources and modules the files of a folder were built from, and how: an in-toto
// statement with an SLSA provenance predicate. Its subjects are the files, and everything that is pushed to
// registries. It has no build times and no machine name, so the same build gives the same statement.
func writeProvenance(c Config, made ingredients, pushed map[string]v1.Hash, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var subjects []resource
	for _, e := range entries {
		sum, err := fileSum(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		subjects = append(subjects, resource{Name: e.Name(), Digest: map[string]string{"sha256": sum}})
	}
	for name, digest := range pushed {
		subjects = append(subjects, resource{Name: name, Digest: map[string]string{digest.Algorithm: digest.Hex}})
	}
	slices.SortFunc(subjects, func(a, b resource) int { return strings.Compare(a.Name, b.Name) })
	dependencies, err := made.resources(c)
	if err != nil {
		return err
	}
	s := statement{
		Type: StatementType, Subject: subjects, PredicateType: PredicateType,
		Predicate: provenance{
			BuildDefinition: buildDefinition{
				BuildType: buildType,
				ExternalParameters: map[string]any{
					"version": c.Version, "revision": c.Revision, "created": c.Time.UTC().Format(time.RFC3339),
					"architectures": c.Archs, "plugins": c.pluginNames(), "download": c.download(),
				},
				ResolvedDependencies: dependencies,
			},
			RunDetails: runDetails{builder{ID: cmp.Or(c.Builder, unhosted), Version: map[string]string{"go": made.goVersion}}},
		},
	}
	return create(filepath.Join(dir, ProvenanceFile(c.Version)), func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(s)
	})
}

// ProvenanceFile is the name of the file with the statement.
func ProvenanceFile(version string) string {
	return fmt.Sprintf("routesrv_%s_provenance.json", version)
}

// resources returns the sources, the Go release, and every linked module, sorted by name.
func (i *ingredients) resources(c Config) ([]resource, error) {
	source := resource{URI: "git+https://" + ourModule + "@refs/tags/" + c.Version}
	if !released.MatchString(c.Version) { // not a tagged version
		source.URI = "git+https://" + ourModule
	}
	if _, err := hex.DecodeString(c.Revision); err == nil && len(c.Revision) == 40 {
		source.Digest = map[string]string{"gitCommit": c.Revision}
	}
	all := []resource{{Name: "go", URI: purl("std", strings.TrimPrefix(i.goVersion, "go"))}}
	for m := range i.modules {
		r := resource{Name: m.path, URI: purl(m.path, m.version)}
		if sum, ok := strings.CutPrefix(m.sum, "h1:"); ok {
			raw, err := base64.StdEncoding.DecodeString(sum)
			if err != nil {
				return nil, fmt.Errorf("%v: checksum %q: %w", m, m.sum, err)
			}
			r.Digest = map[string]string{"dirHash": hex.EncodeToString(raw)}
		}
		all = append(all, r)
	}
	slices.SortFunc(all[1:], func(a, b resource) int { return strings.Compare(a.URI, b.URI) })
	return append([]resource{source}, all...), nil
}
