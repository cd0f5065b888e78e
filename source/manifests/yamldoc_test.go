package manifests_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	yaml "sigs.k8s.io/yaml/goyaml.v2"

	"github.com/routesrv/routesrv/source/manifests"
)

func split(s string) []string {
	var out []string
	for _, d := range manifests.Split([]byte(s)) {
		out = append(out, fmt.Sprintf("%d:%q", d.Line, d.Text))
	}
	return out
}

func TestSplitKeepsDocumentsAndLines(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     []string
	}{
		{"nothing", "", nil},
		{"only comments", "# a\n\n  # b\n", nil},
		{"one without marker", "a: 1\n", []string{`1:"a: 1\n"`}},
		{"one with marker", "---\na: 1\n", []string{`1:"---\na: 1\n"`}},
		{"comment before the marker", "# c\n---\na: 1\n", []string{`2:"---\na: 1\n"`}},
		{"two", "a: 1\n---\nb: 2\n", []string{`1:"a: 1\n"`, `2:"---\nb: 2\n"`}},
		{"empty between", "a: 1\n---\n# x\n---\nb: 2\n", []string{`1:"a: 1\n"`, `2:"---\n# x\n"`, `4:"---\nb: 2\n"`}},
		{"empty at the end", "a: 1\n---\n", []string{`1:"a: 1\n"`, `2:"---\n"`}},
		{"document end", "a: 1\n...\n", []string{`1:"a: 1\n"`}},
		{"document end and start", "a: 1\n...\n---\nb: 2\n...\n", []string{`1:"a: 1\n"`, `3:"---\nb: 2\n"`}},
		{"content on the marker's line", "--- {a: 1}\n--- # c\nb: 2", []string{`1:"--- {a: 1}\n"`, `2:"--- # c\nb: 2"`}},
		{"indented marker in a block scalar", "a: |\n  ---\n  x\n---\nb: 2\n", []string{`1:"a: |\n  ---\n  x\n"`, `4:"---\nb: 2\n"`}},
		{"four dashes are content", "a: 1\n----\n", []string{`1:"a: 1\n----\n"`}},
		{"CRLF", "a: 1\r\n---\r\nb: 2\r\n", []string{`1:"a: 1\r\n"`, `2:"---\r\nb: 2\r\n"`}},
		{"byte order mark", "\ufeff---\na: 1\n", []string{`1:"---\na: 1\n"`}},
		{"directive", "%YAML 1.1\n---\na: 1\n", []string{`2:"---\na: 1\n"`}},
		{"percent inside a document", "a:\n%b\n", []string{`1:"a:\n%b\n"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, split(tt.in)); d != "" {
				t.Errorf("Split(%q): -want +got\n%s", tt.in, d)
			}
		})
	}
}

func TestSyntaxErrorsNameTheLineOfTheStream(t *testing.T) {
	docs := manifests.Split([]byte("a: 1\n---\nb: 2\nc: [\n"))
	_, err := manifests.ToJSON(docs[1])
	if err == nil || !strings.Contains(err.Error(), "line 5") && !strings.Contains(err.Error(), "line 4") {
		t.Errorf("error %v, want one that names line 4 or 5", err)
	}
	docs = manifests.Split([]byte("a: 1\n---\nb: 2\nb: 3\n"))
	if _, err := manifests.ToJSON(docs[1]); err != nil {
		t.Errorf("a repeated key is no syntax error: %v", err)
	}
	if _, err := manifests.ToJSONStrict(docs[1]); err == nil || !strings.Contains(err.Error(), "line 4") {
		t.Errorf("error %v, want one that names line 4", err)
	}
}

func TestNothingBehindAValueIsLost(t *testing.T) {
	for _, in := range []string{"{a: 1}\nb: 2", "{a: 1}{b: 2}", "--- {a: 1}\nb: 2", "\"x\"\nb: 1", "[1]\n[2]", "&x {a: 1}\nb: 2", "a: 1\n}", "a: 1\r---\rb: 2\r", "a: 1\u0085---\u0085b: 2", "\xff\xfea\x00:\x00 \x001\x00\n\x00-\x00-\x00-\x00\n\x00b\x00:\x00 \x002\x00"} {
		if out, err := manifests.ToJSON(manifests.Doc{Line: 1, Text: []byte(in)}); err == nil {
			t.Errorf("%q gives %s", in, out)
		}
	}
	for _, in := range []string{"{a: 1}\n# c\n", "---\n# c\n[1]\n", "# c\na: 1", "\"a\": 1\nb: 2", "--- # empty\n", "'x'"} {
		if _, err := manifests.ToJSON(manifests.Doc{Line: 1, Text: []byte(in)}); err != nil {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func TestJSONIsTakenAsItIs(t *testing.T) {
	const text = "{\"a\": 1.0, \"b\": \"\\ud83d\\ude00\\/\"}\n"
	got, err := manifests.ToJSON(manifests.Doc{Line: 1, Text: []byte(text)})
	if err != nil || string(got) != text {
		t.Errorf("got %q, %v", got, err)
	}
}

// FuzzSplit holds Split against the parser's own stream: the same values, or an error. How many empty documents there are
// between stray byte order marks is a matter of taste.
func FuzzSplit(f *testing.F) {
	for _, s := range []string{
		"", "a: 1\n---\nb: 2\n", "a: |\n  x\n---\n...\n---\n", "--- {a: 1}\n--- # c\nb: 2", "# c\n---\n", "a: 1\r---\rb: 2",
		"%YAML 1.1\n---\na: 1\n", "\"a\n\n--- b\"", "a\u0085---\u2028b", "\ufeffa: 1\n...\n---\nb",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		if bytes.ContainsAny(stream, "&*") {
			return // aliases multiply the values beyond what can be compared
		}
		if bytes.LastIndex(stream, []byte("\ufeff")) > 0 {
			return // a byte order mark inside the stream is content to the parser, or not, depending on where it stands
		}
		var want []any
		dec := yaml.NewDecoder(bytes.NewReader(stream))
		for range 1 + len(stream) { // the parser has inputs on which its stream never ends
			var v any
			err := dec.Decode(&v)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return // no YAML
			}
			if v != nil {
				want = append(want, v)
			}
		}
		var got []any
		for _, d := range manifests.Split(stream) {
			var v any
			if _, err := manifests.ToJSON(d); err != nil {
				return // nothing is lost without a word
			}
			if err := yaml.Unmarshal(d.Text, &v); err != nil {
				t.Fatalf("document %q of %q: %v", d.Text, stream, err)
			}
			if v != nil {
				got = append(got, v)
			}
		}
		if fmt.Sprint(got...) != fmt.Sprint(want...) || len(got) != len(want) {
			t.Errorf("Split(%q) gives %d documents %v, the parser %d %v", stream, len(got), got, len(want), want)
		}
	})
}
