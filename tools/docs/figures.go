package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// figuresHead is the head of the table of figures in README.md.
const figuresHead = "| | routesrv | Skipper's routesrv v0.27 |"

// checkFigures requires that the figures of README.md are in docs/performance.md.
func checkFigures() error {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		return err
	}
	performance, err := os.ReadFile("docs/performance.md")
	if err != nil {
		return err
	}
	return compareFigures(string(readme), string(performance))
}

// compareFigures requires that each row of the table in the first document is the beginning of a row in the second one.
func compareFigures(readme, performance string) error {
	_, table, found := strings.Cut(readme, figuresHead+"\n|---|---|---|\n")
	if !found {
		return fmt.Errorf("README.md has no table with the head %q", figuresHead)
	}
	var errs []error
	rows := 0
	for row := range strings.Lines(table) {
		row = strings.TrimSpace(row)
		if !strings.HasPrefix(row, "|") {
			break
		}
		rows++
		if !strings.Contains(performance, "\n"+row) {
			errs = append(errs, fmt.Errorf("README.md: docs/performance.md has no row %q", row))
		}
	}
	if rows == 0 {
		errs = append(errs, errors.New("README.md: the table of figures is empty"))
	}
	return errors.Join(errs...)
}
