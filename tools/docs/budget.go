package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
)

// budgetFile has a line for each document: its path, and how many words it may have. Code blocks are free, and so is what has no letter and no digit.
const budgetFile = "tools/docs/budget.txt"

var (
	codeBlock = regexp.MustCompile("(?s)```.*?```")
	aWord     = regexp.MustCompile(`[\pL\pN]`)
)

// checkBudget requires that every document has a budget, and keeps it.
func checkBudget() error {
	text, err := os.ReadFile(budgetFile)
	if err != nil {
		return err
	}
	budget := make(map[string]int)
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		var name string
		var words int
		if _, err := fmt.Sscan(lines.Text(), &name, &words); err != nil {
			return fmt.Errorf("%s: %q: want a path and a number of words", budgetFile, lines.Text())
		}
		budget[name] = words
	}
	names, err := documentFiles(".")
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		if strings.Contains(name, "/") && !strings.HasPrefix(name, "docs/") || name == "CHANGELOG.md" {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		limit, ok := budget[name]
		delete(budget, name)
		if n := words(string(text)); !ok {
			errs = append(errs, fmt.Errorf("%s has no line in %s; it has %d words", name, budgetFile, n))
		} else if n > limit {
			errs = append(errs, fmt.Errorf("%s has %d words, and its budget is %d: say it shorter, or elsewhere", name, n, limit))
		}
	}
	for name := range budget {
		errs = append(errs, fmt.Errorf("%s: %s does not exist", budgetFile, name))
	}
	return errors.Join(errs...)
}

// words counts the words of a document outside of code blocks.
func words(text string) (n int) {
	for _, word := range strings.Fields(codeBlock.ReplaceAllString(text, "")) {
		if aWord.MatchString(word) {
			n++
		}
	}
	return n
}
