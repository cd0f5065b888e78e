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

	"github.com/routesrv/routesrv/kube"
)

// parsed is a file with its content.
type parsed struct {
	name    string
	sum     digest
	entries []entry
}

// entry is one object, or the problem with it.
type entry struct {
	document, line int   // where its document begins, both counted from 1
	strict         error // a duplicate key
	decoded
}

// decoded is the result of decoding an object's JSON. It never changes.
type decoded struct {
	ref    kube.Ref
	object kube.Object // nil if err is set
	err    error
}

// parse returns the objects of the file. An error names document and line and makes the read fail.
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
		d := document{source: s, file: f, number: i + 1, line: doc.Line, strict: strict}
		if err := d.add(text, head{}); err != nil {
			return nil, fmt.Errorf("document %d, line %d: %w", i+1, doc.Line, err)
		}
	}
	return f, nil
}

// split returns the documents of a file. JSON values may follow each other without a separator.
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

// document is the document whose objects are being added.
type document struct {
	source       *Source
	file         *parsed
	number, line int
	strict       error // a duplicate key
	depth        int   // of the lists that the objects are in
}

// maxDepth is how deep lists may be in each other: each level is read again for the next one.
const maxDepth = 8

// head holds the fields that decide an object's kind and whether to read it.
type head struct {
	APIVersion text `json:"apiVersion"`
	Kind       text `json:"kind"`
	Metadata   struct {
		Namespace text            `json:"namespace"`
		Labels    map[string]text `json:"labels"`
	} `json:"metadata"`
	Items []json.RawMessage `json:"items"`
}

// text is a string; any other JSON type becomes empty, because decoding the object reports the wrong type.
type text string

// UnmarshalJSON implements [json.Unmarshaler].
func (t *text) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) == nil {
		*t = text(s)
	}
	return nil
}

// add adds the object, or the objects of a list. If an item lacks its kind or API version, the enclosing list
// provides it.
func (d *document) add(raw []byte, list head) error {
	raw = bytes.TrimSpace(raw)
	if string(raw) == "null" {
		return nil
	}
	if len(raw) == 0 || raw[0] != '{' {
		return fmt.Errorf("not an object: %.40q", raw)
	}
	var h head
	_ = json.Unmarshal(raw, &h) // a field of a wrong type stays empty
	if h.Kind == "" {
		h.Kind, h.APIVersion = list.Kind, list.APIVersion
	}
	log := d.source.cfg.Logger.With(slog.String("file", d.file.name), slog.Int("document", d.number), slog.Int("line", d.line))
	kind, ok := kindOf(string(h.APIVersion), string(h.Kind))
	switch {
	case ok:
		d.object(kind, raw, &h)
	case strings.HasSuffix(string(h.Kind), "List") && h.Items != nil:
		if d.strict != nil {
			log.Warn("a list has a key twice, the last one counts", slog.Any("error", d.strict))
		}
		inner := document{source: d.source, file: d.file, number: d.number, line: d.line, depth: d.depth + 1}
		if inner.depth > maxDepth {
			return fmt.Errorf("lists are more than %d deep in each other", maxDepth)
		}
		of := head{Kind: text(strings.TrimSuffix(string(h.Kind), "List")), APIVersion: h.APIVersion}
		for i, item := range h.Items {
			if err := inner.add(item, of); err != nil {
				return fmt.Errorf("item %d: %w", i+1, err)
			}
		}
	case h.Kind == "":
		log.Warn("a document without kind is ignored")
	case h.Kind == text(kube.KindIngress) && strings.HasSuffix(string(h.APIVersion), "/v1beta1"):
		log.Warn("an Ingress of an old API version is ignored, want networking.k8s.io/v1", slog.String("api_version", string(h.APIVersion)))
	default:
		log.Debug("an object of another kind is ignored", slog.String("kind", string(h.Kind)))
	}
	return nil
}

// kindOf returns the kind, and whether it is one that is read.
func kindOf(apiVersion, kind string) (kube.Kind, bool) {
	k := kube.Kind(kind)
	want := ""
	switch k {
	case kube.KindIngress:
		want = "networking.k8s.io/v1"
	case kube.KindRouteGroup:
		want = "zalando.org/v1"
	case kube.KindEndpointSlice:
		want = "discovery.k8s.io/v1"
	case kube.KindService, kube.KindEndpoints:
		want = "v1"
	default:
		return "", false
	}
	return k, apiVersion == "" || apiVersion == want
}

// object adds one object of a kind that is read, unless the configuration excludes it.
func (d *document) object(kind kube.Kind, raw []byte, h *head) {
	label := func(key string) (string, bool) {
		value, ok := h.Metadata.Labels[key]
		return string(value), ok
	}
	if !d.source.cfg.Takes(kind, string(h.Metadata.Namespace), label) {
		return
	}
	d.file.entries = append(d.file.entries, entry{d.number, d.line, d.strict, d.source.decode(kind, raw)})
}

// decode decodes the object. An object of which nothing changed that is read stays the same object.
func (s *Source) decode(kind kube.Kind, raw []byte) (d decoded) {
	o, err := kube.DecodeJSON(kind, raw)
	if err != nil {
		d.ref, d.err = kube.SalvageRef(kind, raw), err
	} else {
		intoDefault(o)
		d.ref, d.object = o.Ref(), o
		if old := s.byRef[d.ref].object; old != nil && reflect.DeepEqual(old, o) {
			d.object = old
		}
	}
	d.ref.Namespace = kube.NamespaceOrDefault(d.ref.Namespace)
	return d
}

// intoDefault puts a new object without a namespace into the namespace that kubectl would use.
func intoDefault(o kube.Object) {
	var namespace *string
	switch o := o.(type) {
	case *kube.Ingress:
		namespace = &o.Namespace
	case *kube.RouteGroup:
		namespace = &o.Namespace
	case *kube.Service:
		namespace = &o.Namespace
	case *kube.Endpoints:
		namespace = &o.Namespace
	case *kube.EndpointSlice:
		namespace = &o.Namespace
	}
	*namespace = kube.NamespaceOrDefault(*namespace)
}
