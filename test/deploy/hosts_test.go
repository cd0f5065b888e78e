package deploy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// references are what a machine follows in a text: URLs, remote bases of kustomize, and images.
var references = regexp.MustCompile(`(?:https?|oci|git|ssh)://([^/\s"'` + "`" + `<>|,;)]+)|\b([a-z0-9-]+(?:\.[a-z0-9-]+)+)/\S*(?:\?ref=|//)|\b(?:image|newName): ["']?([^\s"'{},]+)`)

// foreign returns the first reference in a text to a host or an organisation that whoever registers it controls, or "".
func foreign(text string) string {
	for _, m := range references.FindAllStringSubmatch(text, -1) {
		host := m[1] + m[2]
		if image := m[3]; image != "" {
			first, _, ok := strings.Cut(image, "/")
			if !ok {
				continue // local, or an official image of the configured registry
			}
			if !strings.ContainsAny(first, ".:") {
				return m[0] // an organisation of a public registry
			}
			host = first
		}
		if !reserved(host) {
			return m[0]
		}
	}
	return ""
}

// reserved reports whether nobody can register a host: it has one label, is reserved for examples, is inside the cluster, or is an address.
func reserved(host string) bool {
	_, host, _ = strings.Cut("@"+host, "@")
	host, _, _ = strings.Cut(strings.TrimRight(host, "."), ":")
	if _, err := netip.ParseAddr(host); err == nil || strings.HasPrefix(host, "[") {
		return true
	}
	labels := strings.Split(host, ".")
	last := labels[len(labels)-1]
	return len(labels) == 1 || slices.Contains([]string{"svc", "local", "internal", "test", "invalid", "example"}, last) ||
		len(labels) > 1 && labels[len(labels)-2] == "example" && slices.Contains([]string{"com", "net", "org"}, last) || strings.Contains(host, ".svc.")
}

// named are references that no program follows, by file.
var named = map[string]string{
	"app/console/assets/icon.svg": "http://www.w3.org",              // the XML namespace
	"source/cluster/resource.go":  "https://opensource.zalando.com", // the documentation of RouteGroups, in an error
}

// TestNothingFollowsAForeignHost: no default of a program, manifest or rule leads to a host or an organisation that the project does
// not own: whoever registers it could ship code and rights into clusters.
func TestNothingFollowsAForeignHost(t *testing.T) {
	files := 0
	for _, root := range []string{"deploy/kustomize", "examples", "cmd", "internal", "compile", "dataplane", "eskip", "etagcache", "explain", "fleet", "guard",
		"kube", "match", "poller", "publish", "rollout", "shadowdiff", "table"} {
		err := filepath.WalkDir(filepath.Join("..", root), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && d.Name() == "testdata" {
				return filepath.SkipDir
			}
			if !d.Type().IsRegular() || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".md") {
				return nil
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			files++
			parts := []string{string(text)}
			if strings.HasSuffix(path, ".go") {
				if parts, err = literals(path); err != nil {
					return err
				}
			}
			for _, part := range parts {
				if found := foreign(part); found != "" && found != named[strings.TrimPrefix(path, "../")] {
					t.Errorf("%s: %s", path, found)
				}
			}
			return isLocal(path, text)
		})
		if err != nil {
			t.Error(err)
		}
	}
	if files < 200 {
		t.Errorf("only %d files", files)
	}
}

// literals returns the texts of a Go file: imports and comments are not among them.
func literals(path string) (texts []string, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil {
				texts = append(texts, text)
			}
		}
		return true
	})
	return texts, nil
}

// isLocal reports an error if a kustomization refers to what is not a file or a folder beside it. The example of GitOps refers to a
// copy of deploy/kustomize.
func isLocal(path string, text []byte) error {
	if name := filepath.Base(path); name != "kustomization.yaml" && name != "Kustomization" {
		return nil
	}
	var k struct{ Resources, Components []string }
	if err := yaml.Unmarshal(text, &k); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, r := range slices.Concat(k.Resources, k.Components) {
		if _, err := os.Stat(filepath.Join(filepath.Dir(path), r)); err != nil && !strings.Contains(r, "vendor/routesrv/") {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

func TestForeignHostsAreFound(t *testing.T) {
	for text, want := range map[string]bool{
		"runbook_url: https://github.com/routesrv/routesrv/blob/main/x.md#a": true,
		"- github.com/routesrv/routesrv//deploy/kustomize/base?ref=v1":       true,
		"- git.routesrv.dev/base?ref=main":                                   true,
		"image: routesrv/routesrv:v1":                                        true,
		"image: ghcr.io/routesrv/routesrv":                                   true,
		"newName: quay.io/x/y":                                               true,
		"url: oci://ghcr.io/routesrv/manifests":                              true,
		"http://user@routesrv.dev:80/":                                       true,
		"image: routesrv:devel":                                              false,
		"image: registry.example.org/routesrv:v1":                            false,
		"http://routesrv.routesrv.svc/routes":                                false,
		"http://127.0.0.1:9911, http://[::1]/":                               false,
		"runbook_url: docs/operate/runbook.md#a":                             false,
		"https://wiki.example.org/x":                                         false,
	} {
		if got := foreign(text); (got != "") != want {
			t.Errorf("%s: found %q", text, got)
		}
	}
}
