package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// releaseFiles runs tools/release-files.sh for a version, in a folder with this changelog and these images.
func releaseFiles(t *testing.T, version, changelog, images string) (dir string, printed string, err error) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range map[string]string{"CHANGELOG.md": changelog, "deploy/kustomize/images/kustomization.yaml": images} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	script, err := filepath.Abs("../tools/release-files.sh")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), script, version)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return dir, string(out), err
}

func TestFilesOfARelease(t *testing.T) {
	images, err := os.ReadFile("kustomize/images/kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const changelog = "# Changelog\n\n## Unreleased\n\n- later\n\n## v0.2.0 (2026-12-01)\n\n- one\n- two\n\n## v0.1.0 (2026-11-01)\n\n- first\n"
	dir, printed, err := releaseFiles(t, "0.2.0", changelog, string(images))
	if err != nil {
		t.Fatalf("%v: %s", err, printed)
	}
	notes, err := os.ReadFile(filepath.Join(dir, "dist-files/notes.md"))
	if err != nil || string(notes) != "\n- one\n- two\n\n" {
		t.Errorf("notes %q, error %v", notes, err)
	}
	tagged, err := os.ReadFile(filepath.Join(dir, "dist-files/kustomize/images/kustomization.yaml"))
	if want := strings.Replace(string(images), "newTag: devel", "newTag: v0.2.0", 1); err != nil || string(tagged) != want || want == string(images) {
		t.Errorf("images\n%s\nwant\n%s\nerror %v", tagged, want, err)
	}
	for _, bad := range []struct{ version, images, says string }{
		{"v0.3.0", string(images), `no section "## v0.3.0 (DATE)"`},
		{"v0.2", string(images), `no section "## v0.2 (DATE)"`},
		{"v0.2.0", strings.ReplaceAll(string(images), "devel", "v9"), "want one tag devel to set"},
	} {
		if _, printed, err := releaseFiles(t, bad.version, changelog, bad.images); err == nil || !strings.Contains(printed, bad.says) {
			t.Errorf("%s: %v, %q, want %q", bad.version, err, printed, bad.says)
		}
	}
	if _, printed, err := releaseFiles(t, "v0.3.0-rc.1", changelog, string(images)); err != nil {
		t.Errorf("a pre-release needs no section: %v: %s", err, printed)
	}
}

// TestGoreleaserHasEveryProgram: goreleaser itself checks the rest of its configuration (make release).
func TestGoreleaserHasEveryProgram(t *testing.T) {
	text, err := os.ReadFile("../.goreleaser.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Builds []struct {
			ID, Main string
			Ldflags  []string
		}
		Archives []struct{ IDs []string }
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	var built, packed, want []string
	for _, b := range config.Builds {
		built = append(built, b.Main)
		source, err := os.ReadFile(filepath.Join("..", b.Main, "main.go"))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(b.Ldflags, []string{"-s -X main.version=v{{ .Version }}"}) || !strings.Contains(string(source), "var version") {
			t.Errorf("%s: ldflags %q have to set a variable of %s/main.go", b.ID, b.Ldflags, b.Main)
		}
	}
	for _, a := range config.Archives {
		packed = append(packed, a.IDs...)
	}
	programs, err := filepath.Glob("../cmd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range programs {
		want = append(want, "./cmd/"+filepath.Base(p))
		if !slices.Contains(packed, filepath.Base(p)) {
			t.Errorf("no archive has %s", filepath.Base(p))
		}
	}
	if slices.Sort(built); !slices.Equal(built, want) {
		t.Errorf("goreleaser builds %q, the programs are %q", built, want)
	}
}
