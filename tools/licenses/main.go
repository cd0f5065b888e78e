// Command licenses writes the licenses of all code of others that is linked into our programs: of every module, with the files that a
// module has copied itself, and of Go. A module without a license is an error.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// legal matches the names of files with terms.
var legal = regexp.MustCompile(`(?i)^(licen[sc]e|copying|notice|patents)([._-].*)?$`)

func main() {
	out := flag.String("out", "THIRD_PARTY_LICENSES", "file to write")
	flag.Parse()
	if err := run(*out); err != nil {
		fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
}

func run(out string) error {
	text := bytes.NewBufferString("The programs contain code of others, under these terms.\n")
	root, err := goCommand("env", "GOROOT", "GOVERSION")
	if err != nil {
		return err
	}
	// Folders below the root of Go have the licenses of its tools, which are not linked.
	if err := add(text, "The Go standard library, "+root[1], root[0], false); err != nil {
		return err
	}
	modules, err := goCommand("list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}", "./cmd/...")
	if err != nil {
		return err
	}
	slices.Sort(modules)
	for _, m := range slices.Compact(modules) {
		title, dir, _ := strings.Cut(m, "\t")
		if err := add(text, title, dir, true); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	return os.WriteFile(out, text.Bytes(), 0o644)
}

// goCommand returns the lines that go prints, without empty ones.
func goCommand(args ...string) ([]string, error) {
	cmd := exec.Command("go", args...)
	cmd.Stderr = os.Stderr
	printed, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w", args[0], err)
	}
	lines := strings.Split(string(printed), "\n")
	return slices.DeleteFunc(lines, func(l string) bool { return l == "" }), nil
}

// add writes the terms in a folder, each text once; deep includes the folders below.
func add(text *bytes.Buffer, title, dir string, deep bool) error {
	var written [][]byte
	fmt.Fprintf(text, "\n%s\n%s\n", strings.Repeat("=", 80), title)
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != dir && (!deep || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || !legal.MatchString(d.Name()) || strings.HasSuffix(d.Name(), ".go"):
			return nil
		}
		terms, err := os.ReadFile(name)
		if err != nil || slices.ContainsFunc(written, func(w []byte) bool { return bytes.Equal(w, terms) }) {
			return err
		}
		written = append(written, terms)
		fmt.Fprintf(text, "\n--- %s\n\n%s\n", filepath.ToSlash(strings.TrimPrefix(name, dir)), bytes.TrimRight(terms, "\n"))
		return nil
	})
	if err == nil && len(written) == 0 {
		err = fmt.Errorf("no license in %s", dir)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", title, err)
	}
	return nil
}
