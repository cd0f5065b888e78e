package rules_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
)

// TestEveryReasonIsExplained: each constant is listed among the reasons, with texts in a form that can be joined.
func TestEveryReasonIsExplained(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "reason.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	declared := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		lit, ok := spec.Values[0].(*ast.BasicLit)
		if !ok {
			return true
		}
		if name, err := strconv.Unquote(lit.Value); err == nil {
			declared++
			info := rules.Reason(name).Info()
			if info.Means == name || info.Means == "" || strings.HasSuffix(info.Means, ".") {
				t.Errorf("%s means %q: want a clause without a full stop", name, info.Means)
			}
			if info.Do != "" && !strings.HasSuffix(info.Do, ".") || info.Do == "" && info.Severity > rules.Info {
				t.Errorf("%s: what to do is %q: want a sentence", name, info.Do)
			}
		}
		return true
	})
	if all := rules.Reasons(); len(all) != declared || declared < 20 {
		t.Errorf("%d reasons are declared, %d explained", declared, len(all))
	}
}

// TestBadObjectNamesTheField: for an object that cannot be decoded, the team is told the field, its value, and what is expected.
func TestBadObjectNamesTheField(t *testing.T) {
	var object struct {
		Spec struct {
			Name   string   `json:"name"`
			Number int32    `json:"number"`
			On     bool     `json:"on"`
			Hosts  []string `json:"hosts"`
			Inner  struct {
				Depth int64 `json:"depth"`
			} `json:"inner"`
		} `json:"spec"`
	}
	const prefix, suffix = "the field ", ", so nothing of the object is served."
	for text, want := range map[string]string{
		`{"spec":{"name":5}}`:              prefix + "spec.name has to be a string (found: number)" + suffix,
		`{"spec":{"name":true}}`:           prefix + "spec.name has to be a string (found: bool)" + suffix,
		`{"spec":{"number":"80"}}`:         prefix + "spec.number has to be a whole number (found: string)" + suffix,
		`{"spec":{"number":80.5}}`:         prefix + "spec.number has to be a whole number (found: number 80.5)" + suffix,
		`{"spec":{"on":"yes"}}`:            prefix + "spec.on has to be true or false (found: string)" + suffix,
		`{"spec":{"hosts":{"a":"b"}}}`:     prefix + "spec.hosts has to be a list (found: object)" + suffix,
		`{"spec":{"inner":[]}}`:            prefix + "spec.inner has to be an object with fields (found: array)" + suffix,
		`{"spec":{"inner":{"depth":"1"}}}`: prefix + "spec.inner.depth has to be a whole number (found: string)" + suffix,
		`{"spec":`:                         ": unexpected end of JSON input.",
		`[]`:                               "cannot unmarshal array into Go value of type", // no field
	} {
		err := json.Unmarshal([]byte(text), &object)
		if err == nil {
			t.Fatalf("%s is decoded", text)
		}
		p := rules.BadObject(kube.BadObject{Ref: kube.Ref{Kind: kube.KindIngress, Namespace: "ns", Name: "i"}, Err: fmt.Errorf("decode: %w", err)})
		if got := p.Text(); !strings.Contains(got, want) || strings.HasPrefix(got, prefix) != strings.HasPrefix(want, prefix) {
			t.Errorf("%s: %q, want one with %q", text, got, want)
		}
		if p.Reason != rules.Undecodable || p.Severity != rules.Error || p.Owner.Name != "i" || !strings.Contains(p.Message, err.Error()) {
			t.Errorf("%s: %+v", text, p)
		}
	}
}
