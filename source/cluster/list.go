package cluster

import (
	"cmp"
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

// apiVersion is the version of the API that objects of the resource have, and lists of them.
func (r *resource) apiVersion() string {
	if r.group == "" {
		return "v1"
	}
	return r.group + "/v1"
}

// listKind is the kind of a list of the resource.
func (r *resource) listKind() string { return string(r.kind) + "List" }

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

// permission is what a service account needs for the verb.
func (r *resource) permission(verb, namespace string) string {
	p := `the verb "` + verb + `" on "` + r.plural + `" in API group "` + r.group + `"`
	if namespace != "" {
		p += ` in namespace "` + namespace + `"`
	}
	return p
}

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
	hash     *hasher // of items

	listState      // of the last complete answer
	absent    bool // discovery says that the kind is not there; items are kept for when it comes back
	changed   bool // items or absent changed since the last snapshot
}

func newList(r resource, cfg *Config, hash *hasher) *list {
	l := &list{resource: r, hash: hash, selector: selectorText(cfg.Selectors[r.kind])}
	l.sorted = true
	l.request = request{path: r.path(cfg.Namespace), accept: acceptBuiltIn, missing: r.permission("list", cfg.Namespace)}
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
	a, err := s.askFor(ctx, l, consistent, floor, l.listState)
	if err == nil {
		l.take(a)
	}
	return err
}

// askFor lists one kind and compares the answer with what is known, consistently or else not older than that and than the
// floor. It changes nothing of l. The error is a *[kube.ReadError].
func (s *Source) askFor(ctx context.Context, l *list, consistent bool, floor kube.Revision, known listState) (listAnswer, error) {
	start := time.Now()
	var (
		a   listAnswer
		err error
	)
	consistent = consistent || known.seen == 0
	if !consistent {
		a, err = s.notOlder(ctx, l, floor, known)
	}
	if consistent || needsConsistent(err) {
		a, err = s.ask(ctx, l, 0, known)
	}
	if err == nil {
		a, err = s.confirmLoss(ctx, l, a, known)
	}
	if err != nil {
		if !errors.Is(err, errRestored) { // that one does not end the read
			s.metrics.ReadErrors.WithLabelValues(string(l.kind), string(reasonOf(err))).Inc()
		}
		return a, &kube.ReadError{Verb: "list", Resource: l.name(), Err: err}
	}
	s.metrics.ListDuration.WithLabelValues(string(l.kind)).Observe(time.Since(start).Seconds())
	s.metrics.ListObjects.WithLabelValues(string(l.kind)).Set(float64(len(a.items)))
	return a, nil
}

// take makes the answer what is known.
func (l *list) take(a listAnswer) {
	l.changed = l.changed || !a.same && !sameItems(l.items, a.items)
	l.listState = a.listState
}

// sameItems reports whether both hold the very same objects in the same order.
func sameItems(a, b []item) bool {
	return slices.EqualFunc(a, b, func(a, b item) bool { return a.obj == b.obj && a.bad == b.bad })
}

// listState is what is known of a list at a revision. The items are shared: nobody may change them.
type listState struct {
	items  []item
	sorted bool          // the items are in the order of their keys, as the API has them
	seen   kube.Revision // 0 if the list had none, or was not read yet
	wire   digest        // of the answer if it was compressed
	deep   bool          // items have no digests: every object of the next answer is decoded
}

// forgetBytes makes every object of the next answer one that has to be decoded and compared.
func (s *listState) forgetBytes() {
	s.items, s.wire, s.deep = slices.Clone(s.items), digest{}, true
	for i := range s.items {
		s.items[i].sum = digest{}
	}
}

// listAnswer is a complete answer to the request for a list. Items that are those of the state that it was compared with
// have the same objects; same says that all are, and that none is missing.
type listAnswer struct {
	listState
	same bool
	lost int // how many of the objects that were known are not in it
}

// ask makes one request for the list, not older than since, or a consistent one if since is 0, and compares the answer with
// what is known. It changes nothing of l.
func (s *Source) ask(ctx context.Context, l *list, since kube.Revision, known listState) (a listAnswer, err error) {
	r := l.request
	r.query = listQuery(l.selector, since)
	err = s.get(ctx, r, func(resp *response) error {
		var wire digest
		if resp.wire != nil {
			s.metrics.ListBytes.WithLabelValues(string(l.kind)).Set(float64(len(resp.wire)))
			// The very same answer, revision included. A newer one was asked for if the floor is above it.
			if wire = sha256.Sum256(resp.wire); wire == known.wire && known.seen >= since {
				a = listAnswer{listState: known, same: true}
				return nil
			}
		}
		if err := resp.open(); err != nil {
			return err
		}
		m := matcher{list: l, known: known, same: true, protobuf: resp.media == mediaProtobuf}
		revision, err := walk(resp.media, resp.body, &l.resource, m.add)
		if err != nil {
			return err
		}
		if resp.wire == nil {
			s.metrics.ListBytes.WithLabelValues(string(l.kind)).Set(float64(resp.body.read))
		}
		switch {
		case revision != 0 && revision < since:
			return fail(reasonStale, "answer to %s: its revision %d is older than what was asked for", resp.path, revision)
		case revision != 0 && revision < known.seen:
			return fail(reasonStale, "%w: %d after %d", errRestored, revision, known.seen)
		case revision == 0 && since != 0:
			return fail(reasonStale, "answer to %s: %w", resp.path, errNoRevision)
		}
		if !known.deep {
			s.metrics.DecodedObjects.WithLabelValues(string(l.kind)).Add(float64(m.decoded))
		}
		a = m.answer()
		a.seen, a.wire = revision, wire
		return nil
	})
	return a, err
}

// matcher finds the items of an answer among those that are known and decodes the others.
type matcher struct {
	list     *list
	known    listState
	protobuf bool

	same    bool   // up to here the answer is what is known, item by item; next is not filled yet
	at      int    // where among the known items the next one is expected
	kept    int    // how many of the known items are in the answer so far
	next    []item // of the answer
	index   map[kube.Ref]int
	decoded int
}

// add takes the next item of the answer.
func (m *matcher) add(raw []byte) {
	sum := m.list.hash.sum(raw)
	if m.at < len(m.known.items) && m.known.items[m.at].sum == sum {
		if !m.same {
			m.next = append(m.next, m.known.items[m.at])
		}
		m.at++
		m.kept++
		return
	}
	m.diverge()
	it := m.decode(raw)
	it.sum = sum
	if i, ok := m.find(it.ref()); ok {
		it.keep(&m.known.items[i])
		m.at = i + 1
		m.kept++
	}
	m.next = append(m.next, it)
}

// keep makes the item the known one with the same name as far as that can be had. Status, managed fields and labels of no
// interest change, too: if what is read of the object did not change it stays the same object, and nobody has to compile
// it again.
func (i *item) keep(known *item) (changed bool) {
	switch {
	case i.sum == known.sum:
		*i = *known
	case i.obj != nil && known.obj != nil && reflect.DeepEqual(i.obj, known.obj):
		i.obj = known.obj
	case i.bad != nil && known.bad != nil && i.bad.Err.Error() == known.bad.Err.Error():
		i.bad = known.bad
	default:
		return true
	}
	return false
}

// find gives the place of an object among the known items.
func (m *matcher) find(ref kube.Ref) (int, bool) {
	if m.known.sorted {
		return findItem(m.known.items, ref)
	}
	if m.index == nil {
		m.index = make(map[kube.Ref]int, len(m.known.items))
		for i := range m.known.items {
			m.index[m.known.items[i].ref()] = i
		}
	}
	i, ok := m.index[ref]
	return i, ok
}

// findItem gives the place of an object among items that are sorted, or where it would stand.
func findItem(items []item, ref kube.Ref) (int, bool) {
	return slices.BinarySearchFunc(items, ref, func(i item, ref kube.Ref) int { return compareKeys(i.ref(), ref) })
}

// compareKeys orders objects of one kind as the API lists them: by "namespace/name" as etcd has it, bytewise.
func compareKeys(a, b kube.Ref) int {
	x, y := a.Namespace, b.Namespace
	n := min(len(x), len(y))
	switch {
	case x == y:
		return strings.Compare(a.Name, b.Name)
	case x[:n] != y[:n]:
		return strings.Compare(x, y)
	case len(x) == n:
		return cmp.Compare('/', y[n])
	default:
		return cmp.Compare(x[n], '/')
	}
}

// inOrder reports whether the items are in the order of their keys, each of which is there once.
func inOrder(items []item) bool {
	for i := 1; i < len(items); i++ {
		if compareKeys(items[i-1].ref(), items[i].ref()) >= 0 {
			return false
		}
	}
	return true
}

// diverge begins to collect the items of the answer: from here on it is not what is known.
func (m *matcher) diverge() {
	if m.same {
		m.same = false
		m.next = append(make([]item, 0, len(m.known.items)+len(m.known.items)/16+16), m.known.items[:m.at]...)
	}
}

func (m *matcher) decode(raw []byte) item {
	m.decoded++
	return m.list.decodeItem(raw, m.protobuf)
}

// decodeItem decodes an object, or says what is wrong with it.
func (l *list) decodeItem(raw []byte, protobuf bool) item {
	var (
		obj kube.Object
		err error
	)
	if protobuf {
		obj, err = l.decode(raw)
	} else {
		obj, err = kube.DecodeJSON(l.kind, raw)
	}
	if err == nil {
		return item{obj: obj}
	}
	bad := &kube.BadObject{Ref: kube.Ref{Kind: l.kind}, Err: err}
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

// answer is what was collected, once it is known to be complete.
func (m *matcher) answer() listAnswer {
	if m.at < len(m.known.items) {
		m.diverge() // the last ones are gone
	}
	if m.same {
		return listAnswer{listState: m.known, same: true}
	}
	return listAnswer{
		listState: listState{items: m.next, sorted: inOrder(m.next)}, lost: len(m.known.items) - m.kept,
	}
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
