package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Documents quote messages, names of objects and components, variables and labels. An operator searches for them, so they must be what the
// programs and manifests say.

var (
	quotedMessage  = regexp.MustCompile(`^[a-z][a-z-]*(?:[ ,:]+[a-zA-Z'-]+){2,}$`)
	quotedName     = regexp.MustCompile(`^[a-z0-9]+(?:-[a-z0-9]+)+$`)
	quotedVariable = regexp.MustCompile(`^(?:ROUTESRV|DATAPLANE_CLIENT)_[A-Z_]+$`)
	quotedLabels   = regexp.MustCompile(`^((?:routesrv|dataplane)_[a-z_]+)\{([a-z_, ]+)\}$`)
	aCommand       = regexp.MustCompile(`^(?:go|make|git|kubectl|kubectl-routesrv|curl|routesrv|dataplane-client|skipper|flux|argocd|docker|buildah|grep|cosign|mkdocs|mike|log|show|freeze|rollback|explain|match|diff|status|clients|held|accept|problems|compile|completion)(?: |$)`)
)

// checkTerms requires that what documents quote occurs in the code or in the manifests.
func checkTerms() error {
	code, err := codeText(".")
	if err != nil {
		return err
	}
	labels := make(map[string]string)
	for _, read := range []func() ([]series, error){serverSeries, sidecarSeries, relaySeries, webhookSeries} {
		all, err := read()
		if err != nil {
			return err
		}
		for _, s := range all {
			labels[s.name] = s.labels
		}
	}
	names, err := documentFiles(".")
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		if name == "CHANGELOG.md" || strings.Contains(name, "testdata/") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, m := range inlineCode.FindAllStringSubmatch(strings.Join(prose(string(text)), "\n"), -1) {
			if what := unknownTerm(m[1], code, labels); what != "" {
				errs = append(errs, fmt.Errorf("%s quotes %s %q, which neither the code nor the manifests have", name, what, m[1]))
			}
		}
	}
	return errors.Join(errs...)
}

// unknownTerm returns the kind of a quote that the code should have but does not; empty otherwise.
func unknownTerm(quote, code string, labels map[string]string) string {
	switch {
	case quotedLabels.MatchString(quote):
		m := quotedLabels.FindStringSubmatch(quote)
		for label := range strings.SplitSeq(m[2], ",") {
			if !slices.Contains(strings.Split(labels[m[1]], ","), strings.TrimSpace(label)) {
				return "the label"
			}
		}
	case strings.Contains(code, quote), aCommand.MatchString(quote):
	case quotedVariable.MatchString(quote):
		_, flag, _ := strings.Cut(quote, "_")
		if !strings.Contains(code, ".Add(\"--"+strings.ToLower(strings.ReplaceAll(flag, "_", "-"))+"\"") { // ROUTESRV_MAX_AGE is --max-age
			return "the variable"
		}
	case quotedMessage.MatchString(quote):
		return "the message"
	case quotedName.MatchString(quote):
		return "the name"
	}
	return ""
}

// codeText returns the text of everything below a folder that is no document.
func codeText(root string) (string, error) {
	var all strings.Builder
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "dist" || d.Name() == "bin" || d.Name() == "differential"):
			return fs.SkipDir
		case !d.Type().IsRegular() || !slices.Contains([]string{".go", ".yaml", ".yml", ".txt", ".html", ".json", ".sh", ".mod", ""}, filepath.Ext(path)):
			return nil
		}
		text, err := os.ReadFile(path)
		all.Write(text)
		return err
	})
	return all.String(), err
}
