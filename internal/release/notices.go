package release

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// licenseFile is the project's license; noticesFile holds the licenses of other code in the binaries.
const (
	licenseFile = "LICENSE"
	noticesFile = "THIRD_PARTY_LICENSES"
)

// legalForm matches the names of files with license terms.
var legalForm = regexp.MustCompile(`(?i)^(licen[sc]e|copying|notice|patents)([._-].*)?$`)

// writeNotices collects the licenses of all modules in the binaries of a folder, and of Go's standard library. A module without a
// license is an error.
func writeNotices(ctx context.Context, c Config, p platform, binaries []string, out string) error {
	all, goVersion, err := modules(out, p, binaries)
	if err != nil {
		return err
	}
	goRoot, err := goCommand(ctx, c, p, "env", "GOROOT")
	if err != nil {
		return err
	}
	args := []string{"mod", "download", "-json"}
	for _, m := range all {
		args = append(args, m.String())
	}
	listed, err := goCommand(ctx, c, p, args...)
	if err != nil {
		return err
	}
	dirs := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(listed)); d.More(); {
		var m struct{ Path, Version, Dir string }
		if err := d.Decode(&m); err != nil {
			return fmt.Errorf("go mod download: %w", err)
		}
		dirs[m.Path+"@"+m.Version] = m.Dir
	}
	var text bytes.Buffer
	fmt.Fprintf(&text, "The binaries contain code of others, under these terms.\n")
	// Of Go, use only the top-level files: the folders below hold the licenses of its tools, which are not in the
	// binaries.
	if err := addNotices(&text, "The Go standard library, "+goVersion, strings.TrimSpace(string(goRoot)), false); err != nil {
		return err
	}
	for _, m := range all {
		if err := addNotices(&text, m.path+" "+m.version, dirs[m.String()], true); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(out, noticesFile), text.Bytes(), 0o644)
}

// addNotices adds the legal files of a folder and, if deep is set, those of its subfolders, where code that a module
// has copied keeps its license. It adds the same text only once.
func addNotices(text *bytes.Buffer, title, dir string, deep bool) error {
	seen := map[[sha256.Size]byte]bool{}
	fmt.Fprintf(text, "\n%s\n%s\n%[1]s\n", strings.Repeat("=", 80), title)
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if name != dir && (!deep || d.Name() == "testdata") {
				return fs.SkipDir
			}
			return nil
		case !legalForm.MatchString(d.Name()) || strings.HasSuffix(d.Name(), ".go"):
			return nil
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		if seen[sum] {
			return nil
		}
		seen[sum] = true
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		fmt.Fprintf(text, "\n--- %s\n\n%s\n", filepath.ToSlash(rel), bytes.TrimRight(content, "\n"))
		return nil
	})
	if err == nil && len(seen) == 0 {
		err = fmt.Errorf("%s: no license in %s", title, dir)
	}
	return err
}
