package cluster

import (
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/routesrv/routesrv/kube"
)

// resource is one kind as the API knows it.
type resource struct {
	kind   kube.Kind
	group  string // "" is the core group
	plural string
	wanted func(*Config) bool
	decode func(raw []byte) (kube.Object, error) // protobuf; nil for kinds that have no such form
}

// resources are all kinds, in the order of the requests (ingress.md §3.1). RouteGroups are preceded by discovery.
var resources = []resource{
	{kube.KindIngress, "networking.k8s.io", "ingresses", always, decodeIngress},
	{kube.KindRouteGroup, "zalando.org", "routegroups", always, nil},
	{kube.KindService, "", "services", always, decodeService},
	{kube.KindEndpoints, "", "endpoints", func(c *Config) bool { return !c.EndpointSlices }, decodeEndpoints},
	{kube.KindEndpointSlice, "discovery.k8s.io", "endpointslices", func(c *Config) bool { return c.EndpointSlices }, decodeEndpointSlice},
	{kube.KindSecret, "", "secrets", func(c *Config) bool { return c.Secrets }, decodeSecret},
}

func always(*Config) bool { return true }

// name is the resource as RBAC and kubectl spell it.
func (r *resource) name() string {
	if r.group == "" {
		return r.plural
	}
	return r.plural + "." + r.group
}

// path is where the resource is listed.
func (r *resource) path(namespace string) string {
	p := "/apis/" + r.group + "/v1/"
	if r.group == "" {
		p = "/api/v1/"
	}
	if namespace != "" {
		p += "namespaces/" + url.PathEscape(namespace) + "/"
	}
	return p + r.plural
}

// permission is what a service account needs for the list.
func (r *resource) permission(namespace string) string {
	p := `the verb "list" on "` + r.plural + `" in API group "` + r.group + `"`
	if namespace != "" {
		p += ` in namespace "` + namespace + `"`
	}
	return p
}

// digest tells items apart.
type digest [sha256.Size]byte

// item is one entry of a list: an object, or the problem with it.
type item struct {
	sum digest
	obj kube.Object
	bad *kube.BadObject
}

// list is a kind that is read and what is known of it.
type list struct {
	resource
	request  request // without the revision
	selector string

	seen   kube.Revision // of the last complete answer; 0 if it had none, or there was no answer yet
	items  []item        // of the last complete answer
	absent bool          // discovery says that the kind is not there; items are kept for when it comes back

	changed bool   // items or absent changed since the last snapshot
	wire    digest // of the last complete answer if it was compressed
	next    []item // memory for the items of the next answer that differs
	index   map[digest]int
}

func newList(r resource, cfg *Config) *list {
	l := &list{resource: r, selector: selectorText(cfg.Selectors[r.kind]), index: make(map[digest]int)}
	l.request = request{path: r.path(cfg.Namespace), accept: acceptBuiltIn, missing: r.permission(cfg.Namespace)}
	if r.decode == nil {
		l.request.accept = mediaJSON
	}
	return l
}

// selectorText is the selector as the API takes it, sorted so that every replica makes the same request.
func selectorText(m map[string]string) string {
	terms := make([]string, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if v := m[k]; v != "" {
			k += "=" + v
		}
		terms = append(terms, k)
	}
	return strings.Join(terms, ",")
}

// forget makes the next request a consistent one whose answer is believed, however old it is. The objects stay known.
func (l *list) forget() { l.seen, l.wire = 0, digest{} }

func (l *list) setAbsent(absent bool) {
	if l.absent != absent {
		l.absent, l.changed = absent, true
	}
}

// readList lists one kind, not older than the floor. l changes only if the answer is complete and not older than what was
// seen.
func (s *Source) readList(ctx context.Context, l *list, consistent bool, floor kube.Revision) error {
	start := time.Now()
	consistent = consistent || l.seen == 0
	var err error
	if !consistent {
		err = s.notOlder(ctx, l, floor)
	}
	if consistent || needsConsistent(err) {
		err = s.tryList(ctx, l, 0)
	}
	if err != nil {
		if !errors.Is(err, errRestored) { // that one does not end the read
			s.metrics.ReadErrors.WithLabelValues(string(l.kind), string(reasonOf(err))).Inc()
		}
		return &kube.ReadError{Verb: "list", Resource: l.name(), Err: err}
	}
	s.metrics.ListDuration.WithLabelValues(string(l.kind)).Observe(time.Since(start).Seconds())
	s.metrics.ListObjects.WithLabelValues(string(l.kind)).Set(float64(len(l.items)))
	return nil
}

// tryList makes one request for the list, not older than since, or a consistent one if since is 0.
func (s *Source) tryList(ctx context.Context, l *list, since kube.Revision) error {
	r := l.request
	r.query = listQuery(l.selector, since)
	resp, err := s.get(ctx, r)
	if err != nil {
		return err
	}
	s.metrics.ListBytes.WithLabelValues(string(l.kind)).Set(float64(len(resp.wire)))

	var wire digest
	if resp.gzip {
		// The very same answer, revision included. A newer one was asked for if the floor is above it.
		if wire = sha256.Sum256(resp.wire); wire == l.wire && l.seen >= since {
			return nil
		}
	}
	body, err := s.bodies.plainOf(resp, s.cfg.MaxBytes)
	if err != nil {
		return err
	}
	m := matcher{list: l, same: true, protobuf: resp.media == mediaProtobuf}
	revision, err := walk(resp.media, body, &l.resource, m.add)
	if err != nil {
		return fail(reasonBody, "answer to %s: %w", resp.path, err)
	}
	switch {
	case revision != 0 && revision < since:
		return fail(reasonStale, "answer to %s: its revision %d is older than what was asked for", resp.path, revision)
	case revision != 0 && revision < l.seen:
		return fail(reasonStale, "%w: %d after %d", errRestored, revision, l.seen)
	case revision == 0 && since != 0:
		return fail(reasonStale, "answer to %s: %w", resp.path, errNoRevision)
	}
	s.metrics.DecodedObjects.WithLabelValues(string(l.kind)).Add(float64(m.decoded))
	m.commit()
	l.seen, l.wire = revision, wire
	return nil
}

// matcher finds the items of an answer among those of the answer before and decodes the others.
type matcher struct {
	list     *list
	protobuf bool

	same    bool // up to here the answer is the one before, item by item; next is not filled yet
	at      int  // where in the old items the next one is expected
	indexed bool
	decoded int
}

// add takes the next item of the answer.
func (m *matcher) add(raw []byte) {
	l, sum := m.list, digest(sha256.Sum256(raw))
	if m.at < len(l.items) && l.items[m.at].sum == sum {
		if !m.same {
			l.next = append(l.next, l.items[m.at])
		}
		m.at++
		return
	}
	m.diverge()
	if !m.indexed {
		m.indexed = true
		clear(l.index)
		for i := range l.items {
			l.index[l.items[i].sum] = i
		}
	}
	if i, ok := l.index[sum]; ok {
		l.next = append(l.next, l.items[i])
		m.at = i + 1
		return
	}
	it := m.decode(raw)
	it.sum = sum
	// Lists are ordered by name: an item with the same name in the same place is a new version of the old one.
	if m.at < len(l.items) && l.items[m.at].ref() == it.ref() {
		// Status, managed fields and labels of no interest change, too. What is read of the object did not change: then
		// it stays the same object, and nobody has to compile it again.
		if old := l.items[m.at].obj; old != nil && reflect.DeepEqual(old, it.obj) {
			it.obj = old
		}
		m.at++
	}
	l.next = append(l.next, it)
}

// diverge begins to collect the items of the answer: from here on it is not the one before.
func (m *matcher) diverge() {
	if m.same {
		m.same = false
		m.list.next = append(m.list.next[:0], m.list.items[:m.at]...)
	}
}

func (m *matcher) decode(raw []byte) item {
	m.decoded++
	var (
		obj kube.Object
		err error
	)
	if m.protobuf {
		obj, err = m.list.decode(raw)
	} else {
		obj, err = kube.DecodeJSON(m.list.kind, raw)
	}
	if err == nil {
		return item{obj: obj}
	}
	bad := &kube.BadObject{Ref: kube.Ref{Kind: m.list.kind}, Err: err}
	if d, ok := errors.AsType[*kube.DecodeError](err); ok {
		bad.Ref = d.Ref
	}
	return item{bad: bad}
}

func (i *item) ref() kube.Ref {
	if i.bad != nil {
		return i.bad.Ref
	}
	return i.obj.Ref()
}

// commit makes the answer the list's, once it is known to be complete.
func (m *matcher) commit() {
	l := m.list
	if m.at < len(l.items) {
		m.diverge() // the last ones are gone
	}
	if m.same {
		return
	}
	l.items, l.next = l.next, l.items
	clear(l.next) // lets the objects go
	l.next = l.next[:0]
	l.changed = true
}

// collect returns the objects of the list in a slice of their own.
func collect[T kube.Object](l *list) []T {
	if l.absent || len(l.items) == 0 {
		return nil
	}
	out := make([]T, 0, len(l.items))
	for i := range l.items {
		if o, ok := l.items[i].obj.(T); ok {
			out = append(out, o)
		}
	}
	return out
}

func (l *list) appendBad(bad []kube.BadObject) []kube.BadObject {
	if l.absent {
		return bad
	}
	for i := range l.items {
		if b := l.items[i].bad; b != nil {
			bad = append(bad, *b)
		}
	}
	return bad
}
