//go:build linux

package release_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/internal/release"
)

// wantSBOM wants all modules of the program, and for each module its license among the texts.
func wantSBOM(t *testing.T, c release.Config, goos, arch string, binaries []string, path, notices string, program []byte) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	type component struct {
		Name, Version, Purl string
		Hashes              []struct{ Content string }
		Components          []component
	}
	var bom struct {
		BomFormat, SpecVersion string
		Metadata               struct {
			Timestamp string
			Component component
		}
		Components []component
	}
	if err := json.Unmarshal(text, &bom); err != nil {
		t.Fatal(err)
	}
	if bom.BomFormat != "CycloneDX" || bom.SpecVersion != "1.6" || bom.Metadata.Timestamp != c.Time.UTC().Format(time.RFC3339) {
		t.Errorf("%s %s of %s", bom.BomFormat, bom.SpecVersion, bom.Metadata.Timestamp)
	}
	for _, p := range bom.Metadata.Component.Components {
		if p.Name == binaries[0] && (len(p.Hashes) != 1 || p.Hashes[0].Content != fmt.Sprintf("%x", sha256.Sum256(program))) {
			t.Errorf("checksum of %s: %v", p.Name, p.Hashes)
		}
	}
	got := map[string]bool{}
	for _, m := range bom.Components {
		got[m.Name] = true
		if m.Name == "std" {
			continue
		}
		if m.Purl != "pkg:golang/"+m.Name+"@"+m.Version || len(m.Hashes) != 1 {
			t.Errorf("module %+v", m)
		}
		if !strings.Contains(notices, "\n"+m.Name+" "+m.Version+"\n") {
			t.Errorf("no license of %s", m.Name)
		}
	}
	// Go's own view of what the sources need. Whatever it lists is linked into one of the programs.
	args := []string{"list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}"}
	for _, b := range binaries {
		args = append(args, "./cmd/"+strings.TrimSuffix(b, ".exe"))
	}
	list := exec.CommandContext(t.Context(), "go", args...)
	list.Dir = c.Source
	list.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+arch, "CGO_ENABLED=0")
	out, err := list.Output()
	if err != nil {
		t.Fatalf("%v: %v", list, err)
	}
	want := map[string]bool{"std": true}
	for _, name := range strings.Fields(string(out)) {
		want[name] = true
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("modules (-linked +listed):\n%s", diff)
	}
}
