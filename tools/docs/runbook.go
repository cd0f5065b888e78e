package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	runbookFile = "docs/operate/runbook.md"
	rulesFile   = "deploy/kustomize/components/metrics/rules.yaml"
)

// alertPrefix is the prefix of all alert names, and of no other heading in the runbook.
const alertPrefix = "Routesrv"

// runbookParts are the parts of each section of the runbook, in the order of the questions of an engineer on call.
var runbookParts = []string{"**Users notice**", "**Urgent?**", "**Look**", "**If you see**", "**Verify**"}

// lookCommands is how many commands an on-call engineer types before reading on, at most.
const lookCommands = 3

// alert is an alert's name and the URL of its runbook section.
type alert struct{ name, runbook string }

// checkRunbook requires a section of the runbook for each alert, an alert for each section with an alert's name, the same parts
// in every section, and a link from each alert to its section.
func checkRunbook() error {
	rules, err := os.ReadFile(rulesFile)
	if err != nil {
		return err
	}
	alerts, err := alertsOf(rules)
	if err != nil {
		return fmt.Errorf("%s: %w", rulesFile, err)
	}
	text, err := os.ReadFile(runbookFile)
	if err != nil {
		return err
	}
	return compareRunbook(alerts, string(text))
}

// alertsOf parses a PrometheusRule.
func alertsOf(rules []byte) ([]alert, error) {
	var file struct {
		Spec struct {
			Groups []struct {
				Rules []struct {
					Alert       string
					Annotations map[string]string
				}
			}
		}
	}
	if err := yaml.Unmarshal(rules, &file); err != nil {
		return nil, err
	}
	var alerts []alert
	for _, g := range file.Spec.Groups {
		for _, r := range g.Rules {
			if r.Alert != "" {
				alerts = append(alerts, alert{r.Alert, r.Annotations["runbook_url"]})
			}
		}
	}
	if len(alerts) == 0 {
		return nil, errors.New("there is no alert in it")
	}
	return alerts, nil
}

func compareRunbook(alerts []alert, text string) error {
	var errs []error
	sections := runbookSections(text)
	for _, a := range alerts {
		if _, ok := sections[a.name]; !ok {
			errs = append(errs, fmt.Errorf("%s has no section %s, which is the name of an alert", runbookFile, a.name))
		}
		if want := runbookFile + "#" + anchorOf(a.name); a.runbook != want {
			errs = append(errs, fmt.Errorf("%s: the alert %s leads to %q, must be %q", rulesFile, a.name, a.runbook, want))
		}
	}
	for title, body := range sections {
		isAlert := slices.ContainsFunc(alerts, func(a alert) bool { return a.name == title })
		if !isAlert && strings.HasPrefix(title, alertPrefix) {
			errs = append(errs, fmt.Errorf("%s has a section %s, and there is no such alert", runbookFile, title))
		}
		rest := body
		for _, part := range runbookParts {
			_, after, ok := strings.Cut(rest, "\n"+part)
			if !ok || strings.Count(body, "\n"+part) != 1 {
				errs = append(errs, fmt.Errorf("%s, section %s: must have %s once and in this order", runbookFile, title,
					strings.Join(runbookParts, ", ")))
				break
			}
			rest = after
		}
		_, look, _ := strings.Cut(body, "\n**Look**")
		look, _, _ = strings.Cut(look, "\n**")
		if n := strings.Count(codeBlock.FindString(look), "\n") - 1; n < 1 || n > lookCommands {
			errs = append(errs, fmt.Errorf("%s, section %s: Look must have 1 to %d commands", runbookFile, title, lookCommands))
		}
	}
	return errors.Join(errs...)
}

// runbookSections returns the bodies of third-level headings by title: alerts and symptoms. The second level only groups them.
func runbookSections(text string) map[string]string {
	sections := make(map[string]string)
	title := ""
	for line := range strings.Lines(text) {
		switch name, ok := strings.CutPrefix(line, "### "); {
		case ok:
			title = strings.TrimSpace(name)
			sections[title] = "\n"
		case strings.HasPrefix(line, "## "):
			title = ""
		case title != "":
			sections[title] += line
		}
	}
	return sections
}
