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

// maxWords is how many words all documents may have together.
const maxWords = 36000

// checkBudget requires that every document has a budget, and keeps it, and that the budgets together do.
func checkBudget() error {
	text, err := os.ReadFile(budgetFile)
	if err != nil {
		return err
	}
	budget, total := make(map[string]int), 0
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		var name string
		var words int
		if _, err := fmt.Sscan(lines.Text(), &name, &words); err != nil {
			return fmt.Errorf("%s: %q: must have a path and a number of words", budgetFile, lines.Text())
		}
		budget[name] = words
		total += words
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
			errs = append(errs, fmt.Errorf("%s has %d words, and its budget is %d: shorten it, or link to the home of a fact", name, n, limit))
		}
	}
	if total > maxWords {
		errs = append(errs, fmt.Errorf("%s allows %d words; all documents together must have at most %d", budgetFile, total, maxWords))
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
