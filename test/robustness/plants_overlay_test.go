package robustness

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed planted.go.txt
var planted []byte

// module is the import path of the product; planted is the package in it that the edits call, which exists only in overlays.
const (
	module = "github.com/routesrv/routesrv"
	extra  = "internal/planted"
)

// Edited returns the files with all edits made, by their names in the module. root is the folder of the module. The error names
// each edit whose piece does not occur exactly once in its file.
func Edited(root string, all []Plant) (map[string]string, error) {
	files, original := make(map[string]string), make(map[string]string)
	var wrong []string
	for _, p := range all {
		for _, e := range p.Edits {
			if _, ok := original[e.File]; !ok {
				text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(e.File)))
				if err != nil {
					return nil, fmt.Errorf("plant %s: %w", p.Name, err)
				}
				original[e.File] = string(text)
				files[e.File] = imports(string(text))
			}
			if n := strings.Count(original[e.File], e.Old); n != 1 || strings.Count(files[e.File], e.Old) != 1 {
				wrong = append(wrong, fmt.Sprintf("plant %s: %s has its piece %d times, want once: %q", p.Name, e.File, n, e.Old))
				continue
			}
			files[e.File] = strings.Replace(files[e.File], e.Old, e.New, 1)
		}
	}
	if wrong != nil {
		return nil, fmt.Errorf("%s", strings.Join(wrong, "\n"))
	}
	return files, nil
}

// imports adds the import of the package after the package clause of a file, and a use of it at the end.
func imports(text string) string {
	at := strings.Index("\n"+text, "\npackage ")
	end := at + strings.Index(text[at:], "\n")
	return text[:end] + fmt.Sprintf("\n\nimport %q\n", module+"/"+extra) + text[end:] + "\nvar _ = planted.On\n"
}

// Overlay writes the edited files to a folder and returns the name of the overlay for go build.
func Overlay(root, folder string) (string, error) {
	files, err := Edited(root, Plants())
	if err != nil {
		return "", err
	}
	files[extra+"/planted.go"] = string(planted)
	replace := make(map[string]string)
	for name, text := range files {
		to := filepath.Join(folder, strings.ReplaceAll(name, "/", "-"))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			return "", fmt.Errorf("overlay: %w", err)
		}
		replace[filepath.Join(root, filepath.FromSlash(name))] = to
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", fmt.Errorf("overlay: %w", err)
	}
	name := filepath.Join(folder, "overlay.json")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		return "", fmt.Errorf("overlay: %w", err)
	}
	return name, nil
}

// BuildPlanted builds both programs with all plants into an existing folder. root is the absolute path of the folder of the module.
func BuildPlanted(ctx context.Context, root, folder string) (routesrv, dataplane string, err error) {
	overlay, err := Overlay(root, folder)
	if err != nil {
		return "", "", err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-gcflags=all=-dwarf=false", "-ldflags=-s", "-overlay", overlay, "-o", folder, "./cmd/routesrv", "./cmd/dataplane-client")
	// As for a release: what has no plants in it may have been compiled before.
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", "", fmt.Errorf("build with plants: %w: %s", err, out)
	}
	return filepath.Join(folder, "routesrv"), filepath.Join(folder, "dataplane-client"), nil
}
