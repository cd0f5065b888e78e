package manifests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"strings"
	"unicode"

	"sigs.k8s.io/yaml"
	goyaml "sigs.k8s.io/yaml/goyaml.v2"

	"github.com/routesrv/routesrv/kube"
)

type parsed struct {
	name    string
	sum     digest
	entries []entry
}

type entry struct {
	document, line int   // where its document begins, both counted from 1
	strict         error // a duplicate key
	ref            kube.Ref
	object         kube.Object // nil if err is set
	err            error
}

func (s *Source) parse(c *content) (*parsed, error) {
	f := &parsed{name: c.name, sum: c.sum}
	for i, doc := range split(c) {
		text, strict := ToJSONStrict(doc)
		if strict != nil {
			// A duplicate key is a problem of that object only; any other problem with the text makes the read fail.
			var err error
			if text, err = ToJSON(doc); err != nil {
				return nil, fmt.Errorf("document %d, line %d: %w", i+1, doc.Line, err)
			}
		}
		log := s.cfg.Logger.With(slog.String("file", c.name), slog.Int("document", i+1), slog.Int("line", doc.Line))
		warned := false
		err := each(text, head{}, 0, func(raw []byte, h *head, depth int) error {
			e := entry{document: i + 1, line: doc.Line, strict: strict}
			if depth > 0 && strict != nil {
				if e.strict = nil; !warned {
					warned = true
					log.Warn("a list has a key twice, the last one counts", slog.Any("error", strict))
				}
			}
			if kind, ok := wanted(h, log); ok && s.cfg.Takes(kind, string(h.Metadata.Namespace), h.label) {
				s.decode(&e, kind, raw)
				f.entries = append(f.entries, e)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("document %d, line %d: %w", i+1, doc.Line, err)
		}
	}
	return f, nil
}

func split(c *content) []Doc {
	text := bytes.TrimLeft(c.text, " \t\r\n")
	if len(text) == 0 || text[0] != '{' {
		return Split(c.text)
	}
	var docs []Doc
	line, at := 1+bytes.Count(c.text[:len(c.text)-len(text)], []byte("\n")), 0
	dec := json.NewDecoder(bytes.NewReader(text))
	for {
		var raw json.RawMessage
		err := dec.Decode(&raw)
		end := int(dec.InputOffset())
		switch {
		case errors.Is(err, io.EOF):
			return docs
		case err != nil:
			return Split(c.text) // YAML may begin with a brace, too
		}
		start := end - len(raw)
		line += bytes.Count(text[at:start], []byte("\n"))
		docs = append(docs, Doc{Line: line, Text: raw})
		line += bytes.Count(raw, []byte("\n"))
		at = end
	}
}

// maxDepth is how deep lists may be in each other: each level is read again for the next one.
const maxDepth = 8

type head struct {
	APIVersion text `json:"apiVersion"`
	Kind       text `json:"kind"`
	Metadata   struct {
		Namespace text            `json:"namespace"`
		Labels    map[string]text `json:"labels"`
	} `json:"metadata"`
	Items []json.RawMessage `json:"items"`
}

func (h *head) label(key string) (string, bool) {
	value, ok := h.Metadata.Labels[key]
	return string(value), ok
}

// text is a string; any other JSON type becomes empty, because decoding the object reports it.
type text string

// UnmarshalJSON implements [json.Unmarshaler].
func (t *text) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) == nil {
		*t = text(s)
	}
	return nil
}

// each calls yield with an object in JSON, or with the objects of a list, which provides missing kinds and API versions.
func each(raw []byte, list head, depth int, yield func(raw []byte, h *head, depth int) error) error {
	raw = bytes.TrimSpace(raw)
	if string(raw) == "null" {
		return nil
	}
	if isPatch(raw) { // a kustomize patch, next to the manifests that it patches
		return yield(raw, &head{}, depth)
	}
	if len(raw) == 0 || raw[0] != '{' {
		return fmt.Errorf("not an object: %.40q", raw)
	}
	var h head
	_ = json.Unmarshal(raw, &h) // a field of a wrong type stays empty
	if h.Kind == "" {
		h.Kind, h.APIVersion = list.Kind, list.APIVersion
	}
	kind, ok := strings.CutSuffix(string(h.Kind), "List")
	if !ok || h.Items == nil {
		return yield(raw, &h, depth)
	}
	if depth == maxDepth {
		return fmt.Errorf("lists are more than %d deep in each other", maxDepth)
	}
	for i, item := range h.Items {
		if err := each(item, head{Kind: text(kind), APIVersion: h.APIVersion}, depth+1, yield); err != nil {
			return fmt.Errorf("item %d: %w", i+1, err)
		}
	}
	return nil
}

func isPatch(raw []byte) bool {
	if len(raw) == 0 || raw[0] != '[' {
		return false
	}
	var operations []struct{ Op, Path *string }
	if json.Unmarshal(raw, &operations) != nil || len(operations) == 0 {
		return false
	}
	for _, o := range operations {
		if o.Op == nil || o.Path == nil {
			return false
		}
	}
	return true
}

func wanted(h *head, log *slog.Logger) (kube.Kind, bool) {
	kind := kube.Kind(h.Kind)
	want := kind.APIVersion()
	ok := want != "" && (h.APIVersion == "" || string(h.APIVersion) == want)
	switch {
	case ok:
	case h.Kind == "":
		log.Warn("ignoring a document without kind")
	case h.Kind == text(kube.KindIngress) && strings.HasSuffix(string(h.APIVersion), "/v1beta1"):
		log.Warn("ignoring an Ingress of an old API version; it must be networking.k8s.io/v1", slog.String("api_version", string(h.APIVersion)))
	default:
		log.Debug("ignoring an object of another kind", slog.String("kind", string(h.Kind)))
	}
	return kind, ok
}

// decode decodes the object. One without a relevant change keeps its pointer.
func (s *Source) decode(e *entry, kind kube.Kind, raw []byte) {
	o, err := kube.DecodeJSON(kind, raw)
	if err != nil {
		e.ref, e.err = kube.SalvageRef(kind, raw), err
	} else {
		setDefaults(o)
		e.ref, e.object = o.Ref(), o
		if old := s.byRef[e.ref]; old != nil && reflect.DeepEqual(old, o) {
			e.object = old
		}
	}
	if kind != kube.KindNamespace {
		e.ref.Namespace = kube.NamespaceOrDefault(e.ref.Namespace)
	}
}

// YAML forbids "---" and "..." at the beginning of a line inside any scalar, so no parser is needed.

// otherBreaks are line breaks of YAML at which [Split] does not split, so no document may follow them.
const otherBreaks = "\r\u0085\u2028\u2029"

// Doc is one document of a stream.
type Doc struct {
	// Line is the line of the stream, from 1, at which Text begins.
	Line int
	// Text is the document with its "---", without "...". It shares memory with the stream.
	Text []byte
}

// Split returns the documents of the stream in order, including empty ones, without comments before the first marker.
func Split(stream []byte) (docs []Doc) {
	stream = bytes.TrimPrefix(stream, []byte("\xef\xbb\xbf")) // a byte order mark
	from, first := -1, 0                                      // where the document begins, and its line; -1 for none
	end := func(at int) {
		if from >= 0 {
			docs = append(docs, Doc{first, stream[from:at]})
		}
		from = -1
	}
	at, number := 0, 0
	for line := range bytes.Lines(stream) {
		number++
		switch text := bytes.TrimRight(line, "\r\n"); {
		case marker(text, "---"):
			end(at)
			from, first = at, number
		case marker(text, "..."):
			end(at)
		case from < 0 && !blank(text):
			from, first = at, number
		}
		at += len(line)
	}
	end(len(stream))
	return docs
}

func marker(line []byte, m string) bool {
	rest, ok := bytes.CutPrefix(line, []byte(m))
	return ok && (len(rest) == 0 || rest[0] == ' ' || rest[0] == '\t')
}

func blank(line []byte) bool {
	text := bytes.TrimLeft(line, " \t")
	return (len(text) == 0 || text[0] == '#' || line[0] == '%') && !bytes.ContainsAny(text, otherBreaks)
}

// ToJSON converts the document to JSON by the rules of Kubernetes tools (YAML 1.1). JSON stays unchanged, so that numbers and
// escapes keep their form. The last value of a duplicate key counts. Line numbers in errors refer to the stream.
func ToJSON(d Doc) ([]byte, error) { return convert(d, yaml.YAMLToJSON) }

// ToJSONStrict is [ToJSON], but rejects a key that occurs twice in one mapping.
func ToJSONStrict(d Doc) ([]byte, error) { return convert(d, yaml.YAMLToJSONStrict) }

func convert(d Doc, parse func([]byte) ([]byte, error)) ([]byte, error) {
	if json.Valid(d.Text) {
		return d.Text, nil
	}
	whole := func(text []byte) ([]byte, error) {
		out, err := parse(text)
		if err == nil {
			err = oneDocument(text)
		}
		return out, err
	}
	out, err := whole(d.Text)
	if err != nil {
		return nil, atLine(d, err, whole)
	}
	return out, nil
}

// oneDocument returns an error if anything follows the value of a document: the parser stops after "{a: 1}", and knows line
// breaks that [Split] does not know. It reads a mapping or a scalar in block style to the end.
func oneDocument(text []byte) error {
	begin := bytes.TrimLeft(bytes.TrimPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("---")), " \t\r\n")
	if len(begin) > 0 && begin[0] < unicode.MaxASCII && unicode.IsLetter(rune(begin[0])) && !bytes.ContainsAny(text, otherBreaks) {
		return nil
	}
	dec := goyaml.NewDecoder(bytes.NewReader(text))
	var value any
	if err := dec.Decode(&value); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch err := dec.Decode(&value); {
	case err == nil:
		return errors.New("yaml: something follows the value of the document")
	case errors.Is(err, io.EOF):
		return nil
	default:
		return err
	}
}

// atLine makes the parser fail again with as many empty lines before the document as the stream has, for the line number.
func atLine(d Doc, err error, parse func([]byte) ([]byte, error)) error {
	padded := append(bytes.Repeat([]byte("\n"), d.Line-1), d.Text...)
	if _, again := parse(padded); again != nil {
		err = again
	}
	text := strings.Join(strings.Fields(err.Error()), " ")
	return errors.New(strings.TrimPrefix(text, "error converting YAML to JSON: "))
}
