package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/routesrv/routesrv/internal/config"
)

// Documents quote flags, log messages, labels and names of objects. A quote that the code does not have sends a reader who copies
// it into a search that finds nothing.

// code is what documents may quote.
type code struct {
	words    map[string]bool     // whole string literals, and the words of lists of names
	literals []string            // the same literals, for parts of messages
	labels   map[string][]string // of the series in docs/metrics.md
	names    map[string]bool     // KIND/NAME of the objects in manifests, and namespace/NAME of those that they name
}

var (
	inlineCode  = regexp.MustCompile("`([^`]+)`")
	quotedFlag  = regexp.MustCompile(`^--?([a-z][a-z0-9-]*[a-z0-9])(=.*)?$`)
	quotedLog   = regexp.MustCompile("(?i)\\blogs?(?: \\w+)? (?:has|says|have|say|line|lines|message|warns|warn):? (?:the (?:line|message) )?`([^`]+)`")
	quotedLabel = regexp.MustCompile(`\b((?:routesrv|dataplane|sidecar|shadow_diff)_[a-z_]+)\{([^}]*)\}`)
	labelName   = regexp.MustCompile(`([a-z_]+)(?:=~|!~|!=|=)"`)
	quotedName  = regexp.MustCompile(`(?: |^)(deploy|deployment|deployments|daemonset|configmap)/([a-z][a-z0-9-]*)`)
	namespaceOf = regexp.MustCompile(`kubectl[^|&;]* (?:-n|--namespace)[ =]([a-z][a-z0-9-]*)`)
	ourCommand  = regexp.MustCompile(`(?:^|[\s/])(routesrv|dataplane-client)(?: |$)|kubectl routesrv`)
)

// foreignFlags are flags of other programs that the text quotes by themselves.
var foreignFlags = strings.Fields(`previous noout enddate sync-policy kubernetes-healtcheck self-heal auto-prune race shuffle timeout args full fuzz fuzztime run bench benchtime count for seed plan shrink packages help goal record
	cpu benchmem update context key certificate-identity-regexp certificate-oidc-issuer repo deletion-policy as
	trimpath ldflags check only drop-caches kubeconfig o k n f A a x n0 soak server-side wait prune watch-cache feature-gates
	runtime-config request-timeout max-requests-inflight max-mutating-requests-inflight default-watch-cache-size audit-log-path listen-metrics-urls
	storage-media-type web.enable-lifecycle enable-lifecycle no-new-privs privileged hostNetwork new-bundle-format tlog-upload use-signing-config`)

// promLabels are the labels that Prometheus and its operator add.
var promLabels = strings.Fields(`job instance cluster namespace pod container le quantile alertname severity`)

// foreignNames are objects of examples, and of Skipper's own manifests.
var foreignNames = strings.Fields(`deployment/skipper-ingress-routesrv deploy/skipper-ingress-routesrv namespace/kube-system namespace/shop namespace/default namespace/edge namespace/ingress-nginx
	deployment/skipper-ingress-redis`)

// checkQuotes requires that documents quote only what the code has.
func checkQuotes() error {
	c, err := readCode(".")
	if err != nil {
		return err
	}
	documents, err := documentFiles(".")
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range documents {
		if name == "CHANGELOG.md" || strings.Contains(name, "testdata/") {
			continue // about other versions and programs
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		wrong := c.check(string(text))
		if name == "docs/flags-dataplane-client.md" {
			wrong = append(wrong, checkHelp(string(text))...)
		}
		for _, w := range wrong {
			errs = append(errs, fmt.Errorf("%s:%s", name, w))
		}
	}
	return errors.Join(errs...)
}

// check returns the quotes of a document that the code does not have, each after the number of its line.
func (c *code) check(text string) (wrong []string) {
	found := func(offset int, format string, args ...any) {
		line := 1 + strings.Count(text[:offset], "\n")
		wrong = append(wrong, fmt.Sprintf("%d: %s", line, fmt.Sprintf(format, args...)))
	}
	blocks := text
	text = strings.Join(prose(text), "\n") // code blocks have backticks, too
	for _, m := range inlineCode.FindAllStringSubmatchIndex(text, -1) {
		quote := text[m[2]:m[3]]
		words := strings.Fields(quote)
		if strings.Contains(quote, "\n\n") || !quotedFlag.MatchString(words0(words)) && !ourCommand.MatchString(quote) {
			continue
		}
		for _, word := range words {
			if flag := quotedFlag.FindStringSubmatch(strings.Trim(word, "[],")); flag != nil && !c.hasFlag(flag[1]) {
				found(m[2], "no program has the flag %s", word)
			}
		}
	}
	for _, m := range quotedLog.FindAllStringSubmatchIndex(text, -1) {
		if quote := text[m[2]:m[3]]; !c.hasMessage(quote) {
			found(m[2], "nothing logs %q", quote)
		}
	}
	text = blocks
	offset := 0
	for line := range strings.Lines(text) {
		if command := strings.TrimPrefix(strings.TrimSpace(line), "$ "); ourCommand.MatchString(command) && !strings.Contains(command, "`") && strings.Contains(line, " -") {
			for _, word := range strings.Fields(command) {
				if flag := quotedFlag.FindStringSubmatch(word); flag != nil && !c.hasFlag(flag[1]) {
					found(offset, "no program has the flag %s", word)
				}
			}
		}
		for _, m := range namespaceOf.FindAllStringSubmatch(line, -1) {
			if name := "namespace/" + m[1]; !c.names[name] && !slices.Contains(foreignNames, name) {
				found(offset, "no manifest has the %s", name)
			}
		}
		for _, m := range quotedName.FindAllStringSubmatch(line, -1) {
			kind := map[string]string{"deploy": "deployment", "deployments": "deployment"}[m[1]]
			if kind == "" {
				kind = m[1]
			}
			if name := kind + "/" + m[2]; name != "deployment/kustomize" && strings.Contains(line, "kubectl") && !c.names[name] && !slices.Contains(foreignNames, name) {
				found(offset, "no manifest has the %s", name)
			}
		}
		offset += len(line)
	}
	for _, m := range quotedLabel.FindAllStringSubmatchIndex(text, -1) {
		series := text[m[2]:m[3]]
		for _, l := range labelName.FindAllStringSubmatch(text[m[4]:m[5]], -1) {
			if !slices.Contains(promLabels, l[1]) && !slices.Contains(c.labels[series], l[1]) {
				found(m[2], "%s has no label %s", series, l[1])
			}
		}
	}
	return wrong
}

var (
	definedFlag   = regexp.MustCompile(`(?m)^  --?([a-z][a-z0-9-]+)`)
	mentionedFlag = regexp.MustCompile(`[ (](--?)([a-z][a-z0-9-]{2,})`)
)

// checkHelp returns the flags that a help text mentions and does not define: the texts of flags that several programs share may only
// mention flags that all of them have. Flags named by -name are examples, and -routes-urls is one of the proxy.
func checkHelp(help string) (wrong []string) {
	defined := map[string]bool{"name": true, "routes-urls": true}
	for _, m := range definedFlag.FindAllStringSubmatch(help, -1) {
		defined[m[1]] = true
	}
	for _, m := range mentionedFlag.FindAllStringSubmatchIndex(help, -1) {
		if name := help[m[4]:m[5]]; !defined[name] {
			wrong = append(wrong, fmt.Sprintf("%d: the program has no flag %s", 1+strings.Count(help[:m[0]], "\n"), name))
		}
	}
	return wrong
}

func words0(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return words[0]
}

func (c *code) hasFlag(name string) bool { return c.words[name] || slices.Contains(foreignFlags, name) }

// hasMessage reports whether the code has the parts of a quoted message, between its dots of omission, in one literal each.
func (c *code) hasMessage(quote string) bool {
	for part := range strings.SplitSeq(strings.Join(strings.Fields(quote), " "), "…") {
		part = strings.TrimSpace(part)
		if !slices.ContainsFunc(c.literals, func(l string) bool { return strings.Contains(l, part) }) {
			return false
		}
	}
	return true
}

// readCode reads the literals of all programs, the labels of their series, and the names in their manifests.
func readCode(root string) (*code, error) {
	c := &code{words: make(map[string]bool), labels: make(map[string][]string), names: make(map[string]bool)}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && path != root):
			return fs.SkipDir
		case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") && !strings.Contains(path, "hack"+string(filepath.Separator)+"docs"):
			return c.readGo(path)
		case strings.HasSuffix(path, ".yaml") && strings.Contains(path, "deploy"):
			return c.readManifest(path)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, f := range config.Flags() { // some names are put together
		c.words[f.Name] = true
	}
	return c, c.readLabels(filepath.Join(root, "docs", "metrics.md"))
}

func (c *code) readGo(path string) error {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return true
		}
		text, err := strconv.Unquote(lit.Value)
		if err != nil {
			return true
		}
		c.literals = append(c.literals, strings.Join(strings.Fields(text), " "))
		if words := strings.Fields(text); lit.Value[0] == '`' || len(words) == 1 {
			for _, w := range words {
				c.words[w] = true
			}
		}
		return true
	})
	return nil
}

var manifestName = regexp.MustCompile(`(?m)^kind: (Deployment|DaemonSet|ConfigMap|Namespace)\n(?:.*\n)*?metadata:(?:\n(?:.*\n)*?  name: |\s*\{name: )([a-z0-9-]+)`)

func (c *code) readManifest(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for _, m := range manifestName.FindAllStringSubmatch(string(text), -1) {
		c.names[strings.ToLower(m[1])+"/"+m[2]] = true
	}
	return nil
}

func (c *code) readLabels(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, "|"); len(cells) > 3 && strings.HasPrefix(cells[1], " `") {
			name := strings.Trim(cells[1], " `")
			for _, l := range strings.Split(cells[2], ",") {
				c.labels[name] = append(c.labels[name], strings.TrimSpace(l))
			}
		}
	}
	return nil
}
