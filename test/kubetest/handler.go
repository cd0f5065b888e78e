package kubetest

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/routesrv/routesrv/kube"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Discovery is the path with which a source finds out whether RouteGroups exist.
const Discovery = "/apis/zalando.org/v1"

// Groups is the path of the list of all API groups.
const Groups = "/apis"

// kinds maps words of paths to the served kinds.
var kinds = map[string]kube.Kind{
	"ingresses":      kube.KindIngress,
	"routegroups":    kube.KindRouteGroup,
	"services":       kube.KindService,
	"endpoints":      kube.KindEndpoints,
	"endpointslices": kube.KindEndpointSlice,
	"namespaces":     kube.KindNamespace,
}

func served(k kube.Kind) bool {
	for _, served := range kinds {
		if k == served {
			return true
		}
	}
	return false
}

var resourcePath = regexp.MustCompile(
	`(?:/namespaces/([^/]+))?/(services|ingresses|routegroups|endpointslices|endpoints|namespaces)(?:/([^/]+))?$`)

// answer is a response before it is encoded for the wire.
type answer struct {
	status      int
	contentType string
	body        []byte
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request := Request{
		Path: r.URL.Path, Query: r.URL.RawQuery, Proto: r.Proto, Accept: r.Header.Get("Accept"), UserAgent: r.UserAgent(),
		Authorization: r.Header.Get("Authorization"), AcceptEncoding: r.Header.Get("Accept-Encoding"),
	}
	s.mu.Lock()
	s.requests = append(s.requests, request)
	hook := s.hook
	s.mu.Unlock()
	if hook != nil {
		hook(request)
	}

	if m := watchPath(r); m != nil {
		s.serveWatch(w, r, m)
		return
	}
	s.mu.Lock()
	var fault Fault
	if f := s.faults[r.URL.Path]; f != nil && f.spend() {
		fault = *f
	} else if s.conduct.Fault != nil {
		fault = s.conduct.Fault(r)
	}
	a := s.answer(r, fault)
	if a.status == http.StatusOK {
		fault.replace(&a)
		if s.gzip && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			a.body = s.compressed(r.URL.Path, a.body)
			w.Header().Set("Content-Encoding", "gzip")
		}
		if fault.Raw != nil {
			a.body = fault.Raw
		}
	}
	s.mu.Unlock()

	if fault.Hang {
		<-r.Context().Done()
		return
	}
	if a.contentType != "" {
		w.Header().Set("Content-Type", a.contentType)
	}
	if fault.Location != "" {
		w.Header().Set("Location", fault.Location)
	}
	if fault.breaks() {
		fault.send(w, a)
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // ignore clients that went away
}

// answer returns the answer to the request; mu is held.
func (s *Server) answer(r *http.Request, f Fault) answer {
	asProtobuf := s.protobuf && strings.Contains(r.Header.Get("Accept"), protobufType)
	path := r.URL.Path
	switch {
	case f.Status != 0:
		return f.answer(asProtobuf)
	case r.Method != http.MethodGet:
		return failure(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "only GET", asProtobuf)
	case slices.Contains(s.api.FailOn, path):
		return failure(http.StatusInternalServerError, metav1.StatusReasonInternalError, "failOn", asProtobuf)
	case slices.Contains(s.api.FindNot, path):
		return failure(http.StatusNotFound, metav1.StatusReasonNotFound, "findNot", asProtobuf)
	case path == Discovery && s.undefined:
		return failure(http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource", false)
	case path == Discovery:
		s.answered(r.Context(), Answer{Verb: "get", Revision: s.revision, Status: http.StatusOK})
		return s.discovery()
	case path == Groups:
		return s.groups()
	}
	m := resourcePath.FindStringSubmatch(path)
	if m == nil {
		return failure(http.StatusNotFound, metav1.StatusReasonNotFound, "no such path", asProtobuf)
	}
	namespace, kind, name := m[1], kinds[m[2]], m[3]
	if kind == kube.KindRouteGroup && s.undefined {
		return failure(http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource", false)
	}
	if name != "" {
		return s.single(kube.Ref{Kind: kind, Namespace: kube.NamespaceOrDefault(namespace), Name: name})
	}
	a, revision := s.list(r.URL.Query(), kind, namespace, asProtobuf, f)
	s.answered(r.Context(), Answer{kind, "list", revision, a.status})
	return a
}

func (s *Server) discovery() answer {
	resources := `{"name":"routegroups","singularName":"routegroup","namespaced":true,"kind":"RouteGroup","verbs":["list","watch"]}`
	if s.api.DisableRouteGroups {
		resources = ""
	}
	return answer{http.StatusOK, "application/json", []byte(
		`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"zalando.org/v1","resources":[` + resources + `]}`)}
}

// groups lists the API groups; mu is held.
func (s *Server) groups() answer {
	versions := []string{"networking.k8s.io/v1", "discovery.k8s.io/v1"}
	if !s.undefined && !slices.Contains(s.api.FindNot, Discovery) {
		versions = append(versions, "zalando.org/v1")
	}
	groups := make([]metav1.APIGroup, len(versions))
	for i, v := range versions {
		group, version, _ := strings.Cut(v, "/")
		d := metav1.GroupVersionForDiscovery{GroupVersion: v, Version: version}
		groups[i] = metav1.APIGroup{Name: group, Versions: []metav1.GroupVersionForDiscovery{d}, PreferredVersion: d}
	}
	body, _ := json.Marshal(metav1.APIGroupList{ // strings
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: groups,
	})
	return answer{http.StatusOK, "application/json", body}
}

func (s *Server) single(ref kube.Ref) answer {
	for _, o := range s.objects {
		if o.ref == ref {
			return answer{http.StatusOK, "application/json", o.json}
		}
	}
	return failure(http.StatusNotFound, metav1.StatusReasonNotFound, "no such object", false)
}

// list returns a list and the revision it claims.
func (s *Server) list(q url.Values, kind kube.Kind, namespace string, asProtobuf bool, f Fault) (answer, kube.Revision) {
	reached := s.revision
	if f.Stuck != 0 {
		reached = f.Stuck
	}
	if refused := checkRevision(q, reached, asProtobuf); refused != nil {
		return *refused, reached
	}
	objects, revision := s.ofKind(kind), s.revision
	if f.State != 0 {
		objects = inOrder(s.at(f.State))
	}
	var items []*object
	for _, o := range objects {
		if namespace != "" && o.ref.Namespace != namespace {
			continue
		}
		if o.ref.Kind == kind && selected(o.labels, q.Get("labelSelector")) {
			items = append(items, o)
		}
	}
	if f.Without > 0 {
		all := items
		items = nil
		for i, item := range all {
			if i*37%100 >= f.Without { // 37 and 100 are coprime, so this hits each of a hundred values once
				items = append(items, item)
			}
		}
	}
	switch {
	case f.Revision != 0:
		revision = f.Revision
	case f.State != 0:
		revision = f.State
	case q.Has("resourceVersion"):
		revision = reached
	}
	meta := listMeta(revision)
	if n, err := strconv.Atoi(q.Get("limit")); err == nil && 0 < n && n < len(items) {
		items, meta.Continue = items[:n], "more" // the first page; clients must not ask for the others
	}
	if asProtobuf && kind != kube.KindRouteGroup {
		if body, err := encodeObjects(kind, meta, items); err == nil {
			return answer{http.StatusOK, protobufType, body}, revision
		}
	}
	texts := make([][]byte, len(items))
	for i, o := range items {
		texts[i] = o.json
	}
	return answer{http.StatusOK, "application/json", encodeJSON(kind, meta, texts)}, revision
}

// listMeta returns the metadata of a whole list.
func listMeta(revision kube.Revision) metav1.ListMeta {
	return metav1.ListMeta{ResourceVersion: strconv.FormatUint(uint64(revision), 10)}
}

// checkRevision refuses what a real API server refuses whose cache has reached a revision, except that it does not wait first.
func checkRevision(q url.Values, reached kube.Revision, asProtobuf bool) *answer {
	rv, match := q.Get("resourceVersion"), q.Get("resourceVersionMatch")
	if rv == "" && match == "" {
		return nil
	}
	n, err := strconv.ParseUint(rv, 10, 64)
	if err != nil || match != "NotOlderThan" {
		a := failure(http.StatusBadRequest, metav1.StatusReasonBadRequest,
			"resourceVersion "+strconv.Quote(rv)+" with resourceVersionMatch "+strconv.Quote(match), asProtobuf)
		return &a
	}
	if kube.Revision(n) > reached {
		a := tooLarge(kube.Revision(n), reached, asProtobuf)
		return &a
	}
	return nil
}

// selected evaluates a label selector of the forms "key=value" and "key", joined by commas.
func selected(labels map[string]string, selector string) bool {
	if selector == "" {
		return true
	}
	for _, term := range strings.Split(selector, ",") {
		key, want, equality := strings.Cut(term, "=")
		got, ok := labels[key]
		if !ok || equality && got != want {
			return false
		}
	}
	return true
}

// EncodeJSON returns the body of a list of JSON objects.
func EncodeJSON(kind kube.Kind, revision kube.Revision, items [][]byte) []byte {
	return encodeJSON(kind, listMeta(revision), items)
}

// EncodePage returns the body of a page of a list, with a token if there are more pages.
func EncodePage(kind kube.Kind, revision kube.Revision, items [][]byte, more bool) []byte {
	meta := listMeta(revision)
	if more {
		meta.Continue = "more"
	}
	return encodeJSON(kind, meta, items)
}

func encodeJSON(kind kube.Kind, meta metav1.ListMeta, items [][]byte) []byte {
	var b bytes.Buffer
	header, _ := json.Marshal(meta) // strings
	b.WriteString(`{"kind":"` + string(kind) + `List","apiVersion":"` + apiVersion(kind) + `","metadata":`)
	b.Write(header)
	b.WriteString(`,"items":[`)
	b.Write(bytes.Join(items, []byte{','}))
	b.WriteString("]}")
	return b.Bytes()
}

func apiVersion(k kube.Kind) string {
	switch k {
	case kube.KindIngress:
		return "networking.k8s.io/v1"
	case kube.KindRouteGroup:
		return "zalando.org/v1"
	case kube.KindEndpointSlice:
		return "discovery.k8s.io/v1"
	default:
		return "v1"
	}
}

// packed is a body with its compressed form.
type packed struct{ body, zip []byte }

// compressed returns the compressed body, without work if it is the last one of its path; mu is held.
func (s *Server) compressed(path string, body []byte) []byte {
	if p := s.packed[path]; p.zip == nil || !bytes.Equal(p.body, body) {
		s.packed[path] = packed{body, compress(body)}
	}
	return s.packed[path].zip
}

// zips are writers for reuse: each is a megabyte to clear.
var zips = sync.Pool{New: func() any {
	zw, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is valid
	return zw
}}

func compress(body []byte) []byte {
	var b bytes.Buffer
	zw := zips.Get().(*gzip.Writer)
	defer zips.Put(zw)
	zw.Reset(&b)
	_, _ = zw.Write(body) // a Buffer does not fail
	_ = zw.Close()
	return b.Bytes()
}
