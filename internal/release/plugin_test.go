//go:build linux

package release_test

import (
	"bytes"
	"crypto/sha256"
	"debug/macho"
	"debug/pe"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/routesrv/routesrv/internal/release"
)

// wantPlugin checks the archives of the plugin, which the manifest for krew names with their checksums, and returns the names of
// the files.
func wantPlugin(t *testing.T, c release.Config, dir string) (names []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "routesrv_"+c.Version+"_krew.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var m struct {
		APIVersion, Kind string
		Metadata         struct{ Name string }
		Spec             struct {
			Version, Homepage, ShortDescription string
			Platforms                           []struct {
				Selector         struct{ MatchLabels map[string]string }
				URI, SHA256, Bin string
			}
		}
	}
	if err := yaml.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	if m.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || m.Kind != "Plugin" || m.Metadata.Name != "routesrv" ||
		m.Spec.Version != c.Version || !regexp.MustCompile(`^v\d+\.\d+\.\d+`).MatchString(m.Spec.Version) || len(m.Spec.ShortDescription) > 50 || m.Spec.Homepage == "" {
		t.Errorf("manifest for krew:\n%s", text)
	}
	found := map[string]bool{}
	for _, p := range m.Spec.Platforms {
		goos, arch := p.Selector.MatchLabels["os"], p.Selector.MatchLabels["arch"]
		name := fmt.Sprintf("kubectl-routesrv_%s_%s_%s", c.Version, goos, arch)
		found[goos+"/"+arch] = true
		names = append(names, name+".tar.gz", name+".cdx.json")
		packed, err := os.ReadFile(filepath.Join(dir, name+".tar.gz"))
		if err != nil {
			t.Error(err)
			continue
		}
		if sum := fmt.Sprintf("%x", sha256.Sum256(packed)); p.SHA256 != sum || p.URI != "https://github.com/routesrv/routesrv/releases/download/"+c.Version+"/"+name+".tar.gz" {
			t.Errorf("%s: checksum %s, want %s; URI %s", name, p.SHA256, sum, p.URI)
		}
		files := archive(t, filepath.Join(dir, name+".tar.gz"))
		if got, want := slices.Sorted(maps.Keys(files)), []string{"LICENSE", "THIRD_PARTY_LICENSES", p.Bin}; !slices.Equal(got, want) {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
		switch program := files[p.Bin]; goos {
		case "linux":
			wantBinary(t, arch, c.Version, program)
		case "darwin":
			f, err := macho.NewFile(bytes.NewReader(program))
			if want := map[string]macho.Cpu{"amd64": macho.CpuAmd64, "arm64": macho.CpuArm64}[arch]; err != nil || f.Cpu != want {
				t.Errorf("%s: %v", name, err)
			}
		case "windows":
			f, err := pe.NewFile(bytes.NewReader(program))
			want := map[string]uint16{"amd64": pe.IMAGE_FILE_MACHINE_AMD64, "arm64": pe.IMAGE_FILE_MACHINE_ARM64}[arch]
			if err != nil || f.Machine != want || p.Bin != "kubectl-routesrv.exe" {
				t.Errorf("%s: %v, program %s", name, err, p.Bin)
			}
		}
		wantSBOM(t, c, goos, arch, []string{p.Bin}, filepath.Join(dir, name+".cdx.json"), string(files["THIRD_PARTY_LICENSES"]), files[p.Bin])
	}
	for _, name := range c.Plugins {
		if !found[name] {
			t.Errorf("krew has nothing for %s", name)
		}
	}
	return names
}
