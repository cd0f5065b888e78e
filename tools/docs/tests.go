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

var (
	testName     = regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9_]*)`")
	testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9_]*)\(`)
)

// checkTests requires that every test named in a document exists.
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
	return errors.Join(errs...)
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
