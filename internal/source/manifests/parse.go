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
				e.decoded = s.decode(kind, raw)
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

// label returns a label of the object.
func (h *head) label(key string) (string, bool) {
	value, ok := h.Metadata.Labels[key]
	return string(value), ok
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

// each calls yield with an object in JSON, or with the objects of a list, which may have lists in it. If an item lacks its kind or API
// version, the enclosing list provides it.
func each(raw []byte, list head, depth int, yield func(raw []byte, h *head, depth int) error) error {
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

// wanted returns the kind of an object, and whether it is one that is read. It logs others.
func wanted(h *head, log *slog.Logger) (kube.Kind, bool) {
	kind, ok := kindOf(string(h.APIVersion), string(h.Kind))
	switch {
	case ok:
	case h.Kind == "":
		log.Warn("a document without kind is ignored")
	case h.Kind == text(kube.KindIngress) && strings.HasSuffix(string(h.APIVersion), "/v1beta1"):
		log.Warn("an Ingress of an old API version is ignored, want networking.k8s.io/v1", slog.String("api_version", string(h.APIVersion)))
	default:
		log.Debug("an object of another kind is ignored", slog.String("kind", string(h.Kind)))
	}
	return kind, ok
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
	case kube.KindService, kube.KindEndpoints, kube.KindNamespace, kube.KindConfigMap:
		want = "v1"
	default:
		return "", false
	}
	return k, apiVersion == "" || apiVersion == want
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
	if kind != kube.KindNamespace {
		d.ref.Namespace = kube.NamespaceOrDefault(d.ref.Namespace)
	}
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
	case *kube.ConfigMap:
		namespace = &o.Namespace
	case *kube.EndpointSlice:
		namespace = &o.Namespace
	default: // it has none
		return
	}
	*namespace = kube.NamespaceOrDefault(*namespace)
}
