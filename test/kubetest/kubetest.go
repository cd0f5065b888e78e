// Package kubetest is a fake Kubernetes API server for tests: it serves the objects of a YAML stream over HTTP, in the process,
// and can fail in every way that a source must survive.
//
// A [Server] answers like a real one: lists carry kind, apiVersion and resourceVersion, every change raises that, a
// resourceVersion from the future gives 504, an unknown namespace an empty list, and a limit the first page, with a token for the
// rest. It supports watches: as JSON, with bookmarks, and with the failures that watches meet. Objects are served unchanged. A fresh Server lists them in the order of the stream, as the conformance cases
// expect; after the first [Server.SetRevision] it sorts them by name, like etcd.
//
// A Server is also a source itself ([Server.Read]): it returns what a correct source reads from the same objects. [TestSource] is
// the contract of every source.
//
// It does not validate objects, has no second page and no authorization, and accepts no writes over HTTP.
package kubetest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/source/manifests"
)

// API says how the server misbehaves from the start: the content of an .api file.
type API struct {
	FailOn             []string `json:"failOn"`  // paths without query that answer 500
	FindNot            []string `json:"findNot"` // paths without query that answer 404
	DisableRouteGroups bool     `json:"disableRouteGroups"`
}

// ParseAPIFile parses an .api file. Unknown keys are ignored.
func ParseAPIFile(text []byte) (API, error) {
	var a API
	if err := yaml.Unmarshal(text, &a); err != nil {
		return API{}, fmt.Errorf("parse .api file: %w", err)
	}
	return a, nil
}

// Request is a recorded request.
type Request struct {
	Path, Query    string
	Proto          string // for example "HTTP/1.1"
	Accept         string
	Authorization  string
	UserAgent      string
	AcceptEncoding string
}

// String returns the path with the query.
func (r Request) String() string {
	if r.Query == "" {
		return r.Path
	}
	return r.Path + "?" + r.Query
}

// Server is the fake API server. It is an [http.Handler] and safe for concurrent use.
type Server struct {
	api API

	mu sync.Mutex // guards the fields below

	objects  []*object               // in the order they were added
	known    map[kube.Ref]bool       // of objects
	ordered  map[kube.Kind][]*object // objects of a kind in the order of a list, once requested
	revision kube.Revision           // 0 until New returns
	sorted   bool                    // objects are listed by name
	protobuf bool
	gzip     bool
	faults   map[string]*Fault
	packed   map[string]packed // the last compressed body by path
	// undefined means that the definition of RouteGroups is not installed.
	undefined bool
	requests  []Request
	hook      func(Request)
	conduct   Conduct

	// For watches.
	history     []occurrence
	compacted   kube.Revision
	news        chan struct{} // closed and replaced when there is something to send
	bookmarks   int           // how many were requested
	watches     map[*watcher]bool
	watchFaults map[string]*WatchFault
	held        map[string]bool // by path
}

// object is one stored object. JSON and the values decoded from it never change.
type object struct {
	ref    kube.Ref // Namespace as filed: never empty
	key    string   // the key by which etcd sorts
	labels map[string]string
	json   []byte
	slim   kube.Object // as a source keeps it

	revision kube.Revision // of its last write
	bad      *kube.BadObject

	encode sync.Once
	item   []byte // as an item of a list in protobuf; nil if it has no such form
}

// New returns a server that serves the objects of the YAML stream. An empty document ends the stream, and "kind: List" is
// expanded. Every document needs a kind and a metadata map; kinds that are not served are accepted.
func New(objects []byte, api API) (*Server, error) {
	s := &Server{
		api: api, faults: make(map[string]*Fault), news: make(chan struct{}), watches: make(map[*watcher]bool),
		watchFaults: make(map[string]*WatchFault), held: make(map[string]bool),
		packed: make(map[string]packed), known: make(map[kube.Ref]bool), ordered: make(map[kube.Kind][]*object),
	}
	if err := s.add(objects, false); err != nil {
		return nil, err
	}
	s.revision = 1
	for _, o := range s.objects {
		o.revision = 1
	}
	return s, nil
}

// Start serves s on a port of the loopback interface until the test ends, and returns the base URL.
func (s *Server) Start(tb testing.TB) string {
	tb.Helper()
	return Serve(tb, s)
}

// Serve serves the handler on a port of the loopback interface until the test ends, and returns the base URL.
func Serve(tb testing.TB, h http.Handler) string {
	tb.Helper()
	srv := httptest.NewServer(h)
	tb.Cleanup(func() {
		srv.CloseClientConnections() // including connections that a fault holds open
		srv.Close()
	})
	return srv.URL
}

// Apply adds the objects of the YAML stream, and replaces existing ones (same kind, namespace and name) in place.
func (s *Server) Apply(objects string) error { return s.add([]byte(objects), true) }

// Delete removes an object if it exists. An empty namespace means default.
func (s *Server) Delete(ref kube.Ref) {
	ref.Namespace = kube.NamespaceOrDefault(ref.Namespace)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, o := range s.objects {
		if o.ref == ref {
			s.objects = append(s.objects[:i:i], s.objects[i+1:]...)
			s.forget(o)
			s.changed()
			s.record(o, nil)
			return
		}
	}
}

// SetRevision gives the store a resourceVersion, and lists the order of a real server. A lower revision than before simulates a
// restored etcd.
func (s *Server) SetRevision(r kube.Revision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r < s.revision {
		s.history, s.compacted = nil, 0 // a new history
	}
	s.revision, s.sorted = r, true
	clear(s.ordered)
	for _, o := range s.objects {
		o.revision = min(max(o.revision, 1), max(r, 1))
	}
	s.announce()
}

// SetEncodings sets which encodings the server may use on request: protobuf for the built-in kinds, gzip for everything. By
// default it uses neither.
func (s *Server) SetEncodings(protobuf, gzip bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.protobuf, s.gzip = protobuf, gzip
}

// SetDefined sets whether the definition of RouteGroups is installed, which is the default. Without it, discovery and the list of
// groups omit them, and lists and watches of them get 404.
func (s *Server) SetDefined(defined bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.undefined = !defined
	s.changed()
}

// Requests returns the requests since the last call, in order of arrival.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.requests
	s.requests = nil
	return r
}

// OnRequest calls f for each later request, after recording and before answering it; nil ends that. f may use the server. It runs
// in the goroutine of the request.
func (s *Server) OnRequest(f func(Request)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = f
}

// Body returns the current answer to a GET of the path (without query), ignoring faults, for tests that send parts of it.
func (s *Server) Body(path string, protobuf, gzip bool) []byte {
	r := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: path}, Header: http.Header{"Accept": {protobufType}}}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.protobuf
	s.protobuf = protobuf
	body := s.answer(r, Fault{}).body
	s.protobuf = before
	if gzip {
		body = s.compressed(path, body)
	}
	return body
}

// changed counts a write; mu is held.
func (s *Server) changed() {
	if s.revision != 0 {
		s.revision++
	}
}

func (s *Server) add(stream []byte, replace bool) error {
	objects, err := parse(stream)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range objects {
		before, changed := s.put(o, replace)
		s.changed()
		if changed {
			s.record(before, o)
		}
	}
	return nil
}

// put stores the object. It returns the previous one, and whether anything changed; mu is held.
func (s *Server) put(o *object, replace bool) (before *object, changed bool) {
	if replace && s.known[o.ref] {
		i := slices.IndexFunc(s.objects, func(old *object) bool { return old.ref == o.ref })
		old := s.objects[i]
		if bytes.Equal(old.json, o.json) {
			return old, false
		}
		s.objects[i] = o
		s.reorder(old, o)
		return old, true
	}
	s.objects = append(s.objects, o)
	s.known[o.ref] = true
	s.reorder(nil, o)
	return nil, true
}

// forget removes an object; mu is held.
func (s *Server) forget(o *object) {
	delete(s.known, o.ref)
	s.reorder(o, nil)
}

// reorder updates the order of a kind; mu is held. A server that does not sort yet rebuilds it.
func (s *Server) reorder(before, now *object) {
	kind := cmp.Or(before, now).ref.Kind
	list, kept := s.ordered[kind]
	if !kept || !s.sorted {
		delete(s.ordered, kind)
		return
	}
	i, _ := slices.BinarySearchFunc(list, cmp.Or(before, now).key, func(o *object, key string) int { return cmp.Compare(o.key, key) })
	switch {
	case before == nil:
		s.ordered[kind] = slices.Insert(list, i, now)
	case now == nil:
		s.ordered[kind] = slices.Delete(list, i, i+1)
	default:
		list[i] = now
	}
}

// Read acts as a source without HTTP: it returns what a correct source reads, and an error while a list or the discovery has a
// fault. It fills EndpointSlices and Endpoints.
func (s *Server) Read(ctx context.Context, _ kube.ReadOptions) (*kube.Snapshot, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for path, f := range s.faults {
		if f.spend() {
			return nil, &kube.ReadError{Verb: "list", Resource: path, Err: errors.New("fault")}
		}
	}
	snap := &kube.Snapshot{Revision: s.revision, Newest: s.revision}
	for _, o := range s.inOrder() {
		if o.bad != nil {
			snap.Bad = append(snap.Bad, *o.bad)
			continue
		}
		switch v := o.slim.(type) {
		case *kube.Ingress:
			snap.Ingresses = append(snap.Ingresses, v)
		case *kube.RouteGroup:
			if !s.api.DisableRouteGroups {
				snap.RouteGroups = append(snap.RouteGroups, v)
			}
		case *kube.Service:
			snap.Services = append(snap.Services, v)
		case *kube.Endpoints:
			snap.Endpoints = append(snap.Endpoints, v)
		case *kube.EndpointSlice:
			snap.EndpointSlices = append(snap.EndpointSlices, v)
		}
	}
	return snap, nil
}

// parse splits a YAML stream into objects and expands lists.
func parse(stream []byte) ([]*object, error) {
	var objects []*object
	for _, doc := range manifests.Split(stream) {
		text, err := manifests.ToJSON(doc)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", doc.Line, err)
		}
		if bytes.Equal(bytes.TrimSpace(text), []byte("null")) {
			break // an empty document ends the stream
		}
		more, err := parseObject(text)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", doc.Line, err)
		}
		objects = append(objects, more...)
	}
	return objects, nil
}

func parseObject(text []byte) ([]*object, error) {
	var head struct {
		Kind     string                     `json:"kind"`
		Metadata map[string]json.RawMessage `json:"metadata"`
		Items    []json.RawMessage          `json:"items"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, err
	}
	switch {
	case head.Kind == "List":
		var objects []*object
		for _, item := range head.Items {
			more, err := parseObject(item)
			if err != nil {
				return nil, err
			}
			objects = append(objects, more...)
		}
		return objects, nil
	case head.Kind == "":
		return nil, errors.New("object without kind")
	case head.Metadata == nil:
		return nil, fmt.Errorf("%s without metadata", head.Kind)
	}
	o := &object{ref: kube.SalvageRef(kube.Kind(head.Kind), text), json: bytes.Clone(text)}
	o.ref.Namespace = kube.NamespaceOrDefault(o.ref.Namespace)
	o.key = o.ref.Namespace + "/" + o.ref.Name
	o.labels = labels(head.Metadata["labels"])
	if served(o.ref.Kind) {
		var err error
		if o.slim, err = kube.DecodeJSON(o.ref.Kind, text); err != nil {
			o.bad = &kube.BadObject{Ref: kube.SalvageRef(o.ref.Kind, text), Err: err}
		}
	}
	return []*object{o}, nil
}

// labels returns the string values of a labels map; selectors cannot match values of other types.
func labels(raw json.RawMessage) map[string]string {
	var values map[string]any
	if json.Unmarshal(raw, &values) != nil {
		return nil
	}
	out := make(map[string]string, len(values))
	for k, v := range values {
		if s, ok := v.(string); ok {
			out[k] = s
		}
	}
	return out
}
