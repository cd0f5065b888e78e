package release

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// ourModule is the path of the binaries' module.
const ourModule = "github.com/routesrv/routesrv"

// writeSBOM writes the bill of materials of the binaries in a folder: the programs with their checksums, every module
// linked into them, as recorded in the binaries, and the Go release.
func writeSBOM(file string, c Config, p platform, binaries []string, dir string) error {
	all, goVersion, err := modules(dir, p, binaries)
	if err != nil {
		return err
	}
	root := cdx.Component{
		BOMRef: purl(ourModule, c.Version), Type: cdx.ComponentTypeApplication, Name: ourModule, Version: c.Version,
		PackageURL: purl(ourModule, c.Version),
		Licenses:   &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
		Properties: &[]cdx.Property{{Name: "os", Value: p.os}, {Name: "architecture", Value: p.arch}},
	}
	if c.Revision != "" {
		*root.Properties = append(*root.Properties, cdx.Property{Name: "revision", Value: c.Revision})
	}
	var programs []cdx.Component
	for _, b := range binaries {
		b = p.file(b)
		sum, err := fileSum(filepath.Join(dir, b))
		if err != nil {
			return err
		}
		programs = append(programs, cdx.Component{
			BOMRef: "file:" + b, Type: cdx.ComponentTypeFile, Name: b, Version: c.Version, Hashes: sha256Of(sum),
		})
	}
	root.Components = &programs
	release := strings.TrimPrefix(goVersion, "go")
	components := []cdx.Component{{
		BOMRef: purl("std", release), Type: cdx.ComponentTypeLibrary, Name: "std", Version: goVersion,
		Description: "The Go standard library", PackageURL: purl("std", release),
	}}
	needs := []string{components[0].BOMRef}
	for _, m := range all {
		component := cdx.Component{
			BOMRef: purl(m.path, m.version), Type: cdx.ComponentTypeLibrary, Name: m.path, Version: m.version,
			PackageURL: purl(m.path, m.version),
		}
		if sum, ok := strings.CutPrefix(m.sum, "h1:"); ok {
			raw, err := base64.StdEncoding.DecodeString(sum)
			if err != nil {
				return fmt.Errorf("%v: checksum %q: %w", m, m.sum, err)
			}
			component.Hashes = sha256Of(hex.EncodeToString(raw))
		}
		components, needs = append(components, component), append(needs, component.BOMRef)
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: c.Time.UTC().Format(time.RFC3339), Component: &root}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: root.BOMRef, Dependencies: &needs}}
	return create(file, func(w io.Writer) error {
		return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6)
	})
}

func sha256Of(sum string) *[]cdx.Hash {
	return &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}}
}

// purl returns the package URL of a Go module, by which programs look up vulnerabilities.
func purl(path, version string) string {
	return "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
}
