package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// securityFile contains the table of threats, whose rows name the tests that prove them.
const securityFile = "docs/security.md"

var (
	testName     = regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9_]*)`")
	testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9_]*)\(`)
)

// checkTests requires that every test named in a document exists, and that every row of the table of threats names a test or says
// that there is nothing to test.
func checkTests() error {
	known, err := testFunctions(".")
	if err != nil {
		return err
	}
	names, err := documentFiles(".")
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, m := range testName.FindAllStringSubmatch(string(text), -1) {
			if !known[m[1]] {
				errs = append(errs, fmt.Errorf("%s names the test %s, which does not exist", name, m[1]))
			}
		}
	}
	text, err := os.ReadFile(securityFile)
	if err != nil {
		return err
	}
	return errors.Join(append(errs, checkThreats(string(text))...)...)
}

// checkThreats checks the last column of the first table.
func checkThreats(text string) (errs []error) {
	const head = "| who | can | cannot | what you can do | shown by |"
	_, table, found := strings.Cut(text, head+"\n")
	if !found {
		return []error{fmt.Errorf("%s has no table %q", securityFile, head)}
	}
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "| ") {
			if strings.HasPrefix(line, "|---") {
				continue
			}
			break
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if last := strings.TrimSpace(cells[len(cells)-1]); !testName.MatchString(last) && !strings.HasPrefix(last, "nothing: ") {
			errs = append(errs, fmt.Errorf("%s: the row %q names no test", securityFile, strings.TrimSpace(cells[0])))
		}
	}
	return errs
}

// testFunctions returns the tests, fuzz targets and benchmarks below a folder.
func testFunctions(root string) (map[string]bool, error) {
	all := make(map[string]bool)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range testFunction.FindAllSubmatch(text, -1) {
			all[string(m[1])] = true
		}
		return nil
	})
	return all, err
}
