package robustness

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/test/kubetest"
	"github.com/routesrv/routesrv/test/robustness/history"
	"github.com/routesrv/routesrv/test/robustness/record"
	"github.com/routesrv/routesrv/test/robustness/traffic"
	"github.com/routesrv/routesrv/test/scale"
)

// API is a fake API server that treats each member differently, and records its answers. It is safe for concurrent use, except
// that only one goroutine at a time may call Apply and Restore.
type API struct {
	fake *kubetest.Server
	rec  *record.Recorder

	listeners listeners
	faults    injected

	mu    sync.Mutex
	marks []mark // revisions of the last seconds
}

type mark struct {
	at       time.Duration
	revision kube.Revision
}

// restorable is how long the API remembers past states.
const restorable = 15 * time.Second

// NewAPI returns an API server without objects, at a revision of a few thousand.
func NewAPI(rec *record.Recorder) (*API, error) {
	fake, err := kubetest.New(nil, kubetest.API{})
	if err != nil {
		return nil, err
	}
	a := &API{fake: fake, rec: rec}
	fake.SetRevision(5000)
	fake.SetEncodings(true, true)
	fake.SetConduct(kubetest.Conduct{Fault: a.conductList, Watch: a.conductWatch, Mute: a.mute, Answered: a.answered})
	return a, nil
}

// Listen serves the API to one member, and returns the base URL.
func (a *API) Listen(member, ip string) (string, error) {
	return a.listeners.listen(member, ip, a.fake)
}

// Close ends all listeners.
func (a *API) Close() { a.listeners.close() }

// Inject injects a fault for a member, until the returned function is called.
func (a *API) Inject(member string, f APIFault) (end func(), err error) {
	remove, err := a.faults.add(member, f)
	if err != nil {
		return nil, err
	}
	if beginsWithAWatch(f.Name) {
		a.fake.Drop(func(ctx context.Context) bool { return noteOf(ctx).member == member })
	}
	return func() {
		remove()
		a.fake.Wake()
	}, nil
}

// Load adds the cluster of package scale, which never changes.
func (a *API) Load(factor float64) error {
	for text := range scale.New(factor).All() {
		if err := a.Apply(traffic.Write{Key: keyOf(text), Object: string(text), Class: traffic.Valid}); err != nil {
			return fmt.Errorf("load the large cluster: %w", err)
		}
	}
	a.fake.Compact()
	return nil
}

// Apply makes one write and records it.
func (a *API) Apply(w traffic.Write) error {
	at := a.rec.Now()
	if w.Object == "" {
		a.fake.Delete(kube.Ref{Kind: kube.Kind(w.Kind), Namespace: w.Namespace, Name: w.Name})
	} else if err := a.fake.Apply(w.Object); err != nil {
		return fmt.Errorf("apply %s %s/%s: %w", w.Kind, w.Namespace, w.Name, err)
	}
	revision := a.fake.Revision()
	a.rec.Change(history.Change{
		At: at, Revision: uint64(revision), Kind: w.Kind, Namespace: w.Namespace, Name: w.Name, Object: w.Object, Class: w.Class,
	})
	if oldest := a.remember(mark{at, revision}); oldest != 0 {
		a.fake.CompactTo(oldest)
		a.fake.Requests() // otherwise it would keep them for ever
	}
	return nil
}

// remember adds a mark and removes old ones, then returns the oldest remaining revision. The fake calls back while it is locked,
// so it must not be called with the lock of a held.
func (a *API) remember(m mark) kube.Revision {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.marks = append(a.marks, m)
	if m.at-a.marks[0].at <= restorable+time.Second {
		return 0
	}
	i := slices.IndexFunc(a.marks, func(old mark) bool { return m.at-old.at <= restorable })
	a.marks = slices.Clone(a.marks[i:])
	return a.marks[0].revision
}

// Restore restores the API to its state some time ago, and returns the objects of that state.
func (a *API) Restore(ago time.Duration) (map[traffic.Key]string, error) {
	at := a.rec.Now()
	r := a.before(ago)
	if r == 0 || !a.fake.Restore(r) {
		return nil, fmt.Errorf("nothing is known of %v ago", ago)
	}
	a.mu.Lock()
	a.marks = slices.DeleteFunc(a.marks, func(m mark) bool { return m.revision > r })
	a.mu.Unlock()
	a.rec.Change(history.Change{At: at, Revision: uint64(r), Reset: true})
	return a.State(), nil
}

// State returns the stored objects.
func (a *API) State() map[traffic.Key]string {
	out := make(map[traffic.Key]string)
	for _, text := range a.fake.Objects() {
		out[keyOf(text)] = string(text)
	}
	return out
}

func keyOf(object []byte) traffic.Key {
	var o struct {
		Kind     string
		Metadata struct{ Namespace, Name string }
	}
	if err := json.Unmarshal(object, &o); err != nil {
		panic(err) // unexpected: it was created here, or stored before
	}
	return traffic.Key{Kind: o.Kind, Namespace: o.Metadata.Namespace, Name: o.Metadata.Name}
}

// before returns the revision of some time ago; 0 if unknown.
func (a *API) before(ago time.Duration) kube.Revision {
	now := a.rec.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	var r kube.Revision
	for _, m := range a.marks {
		if now-m.at < ago {
			break
		}
		r = m.revision
	}
	return r
}

// conductList returns the fault of a request that is not a watch.
func (a *API) conductList(r *http.Request) kubetest.Fault {
	n := noteOf(r.Context())
	discovery := r.URL.Path == kubetest.Discovery || r.URL.Path == kubetest.Groups
	cached := r.URL.Query().Has("resourceVersion")
	for _, f := range a.faults.now(n.member, r.URL.Path) {
		n.fault = f.Name
		switch {
		case discovery && f.Name == DiscoveryFlaps && r.URL.Path == kubetest.Discovery && a.faults.flap():
			return kubetest.Fault{Status: http.StatusNotFound}
		case discovery && f.Name == DiscoveryFails, f.Name == APIStatus:
			return kubetest.Fault{Status: f.Status}
		case discovery:
		case f.Name == ListEmpty && cached:
			return kubetest.Fault{Without: 100}
		case f.Name == ListHalf && cached:
			return kubetest.Fault{Without: 65}
		case f.Name == ListShort:
			return kubetest.Fault{Short: -7}
		case f.Name == ListOther:
			return kubetest.Fault{Body: []byte(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`), ContentType: "application/json"}
		case f.Name == ListStale && cached:
			if before := a.before(3 * time.Second); before != 0 {
				return kubetest.Fault{State: before}
			}
		}
		n.fault = ""
	}
	return kubetest.Fault{}
}

// conductWatch returns the fault of a new watch.
func (a *API) conductWatch(r *http.Request) kubetest.WatchFault {
	n := noteOf(r.Context())
	for _, f := range a.faults.now(n.member, r.URL.Path) {
		n.fault = f.Name
		switch f.Name {
		case WatchGone:
			return kubetest.WatchFault{Gone: true}
		case WatchCut:
			return kubetest.WatchFault{Cut: 3}
		case NoBookmarks:
			return kubetest.WatchFault{NoBookmarks: true}
		case APIStatus:
			return kubetest.WatchFault{Status: f.Status}
		}
		n.fault = ""
	}
	return kubetest.WatchFault{}
}

// mute reports whether a watch is silent.
func (a *API) mute(ctx context.Context) bool {
	return a.faults.has(noteOf(ctx).member, WatchSilent)
}

// answered records an answer.
func (a *API) answered(ctx context.Context, got kubetest.Answer) {
	n := noteOf(ctx)
	if n.member == "" || got.Status != http.StatusOK && n.fault == "" {
		return
	}
	kind := string(got.Kind)
	if kind == "" {
		kind = "Discovery"
	}
	a.rec.Read(history.Read{
		At: a.rec.Now(), Member: n.member, Kind: kind, Verb: got.Verb, Revision: uint64(got.Revision), Whole: n.fault == "", Fault: n.fault,
	})
}
