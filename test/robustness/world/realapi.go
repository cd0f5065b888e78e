package world

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/routesrv/routesrv/internal/kubetest"
	"github.com/routesrv/routesrv/test/robustness/history"
	"github.com/routesrv/routesrv/test/robustness/record"
	"github.com/routesrv/routesrv/test/robustness/traffic"
)

// Real describes a kube-apiserver.
type Real struct {
	URL       string            // its base URL
	Transport http.RoundTripper // adds the credentials, which must allow everything
}

// largestList limits how much of a list the front keeps in memory.
const largestList = 64 << 20

// RealAPI is a proxy in front of a kube-apiserver: it passes on the requests of members, with a listener and faults for each, and
// records the answers. Its methods are safe for concurrent use, except that only one goroutine at a time may call Apply.
type RealAPI struct {
	real   Real
	base   *url.URL
	rec    *record.Recorder
	client *http.Client

	listeners listeners
	faults    injected
	writes    writes

	mu      sync.Mutex
	watches map[*watching]bool
}

// watching is a member's watch that is passed on.
type watching struct {
	member string
	end    context.CancelFunc
}

// NewRealAPI returns the front of a kube-apiserver with the kinds of the product, and follows deletions there until Close.
func NewRealAPI(real Real, rec *record.Recorder) (*RealAPI, error) {
	base, err := url.Parse(real.URL)
	if err != nil {
		return nil, fmt.Errorf("real API: %w", err)
	}
	a := &RealAPI{real: real, base: base, rec: rec, client: &http.Client{Transport: real.Transport}, watches: make(map[*watching]bool)}
	if err := a.follow(); err != nil {
		return nil, err
	}
	return a, nil
}

// Listen implements [Cluster].
func (a *RealAPI) Listen(member, ip string) (string, error) {
	return a.listeners.listen(member, ip, a)
}

// Close implements [Cluster].
func (a *RealAPI) Close() {
	a.listeners.close()
	a.writes.close()
}

// Load implements [Cluster]; only the fake supports it.
func (a *RealAPI) Load(float64) error {
	return errors.New("a real API is not loaded with the large cluster")
}

// Restore implements [Cluster]; a kube-apiserver's etcd is not restored here.
func (a *RealAPI) Restore(time.Duration) (map[traffic.Key]string, error) {
	return nil, errors.New("a real API is not restored")
}

// State implements [Cluster].
func (a *RealAPI) State() map[traffic.Key]string { return maps.Clone(a.writes.stored) }

// Inject implements [Cluster].
func (a *RealAPI) Inject(member string, f APIFault) (end func(), err error) {
	if !slices.Contains(RealAPIFaults(), f.Name) {
		return nil, fmt.Errorf("a real API has no fault %q", f.Name)
	}
	remove, err := a.faults.add(member, f)
	if err == nil && beginsWithAWatch(f.Name) {
		a.mu.Lock()
		defer a.mu.Unlock()
		for w := range a.watches {
			if w.member == member {
				w.end()
			}
		}
	}
	return remove, err
}

// ServeHTTP implements [http.Handler]. If it cannot pass a request on, it breaks the connection.
func (a *RealAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := noteOf(r.Context())
	watch := r.URL.Query().Has("watch")
	for _, f := range a.faults.now(n.member, r.URL.Path) {
		if a.instead(w, r, f) {
			a.gave(r, n, 0, f.Name)
			return
		}
	}
	if watch {
		a.passWatch(w, r, n)
		return
	}
	resp, err := a.ask(r.Context(), r)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, largestList))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	revision, fault := uint64(0), ""
	if resp.StatusCode == http.StatusOK {
		revision = listRevision(resp.Header, body)
		for _, f := range a.faults.now(n.member, r.URL.Path) {
			if other, ok := spoiled(r, body, revision, f.Name); ok {
				if f.Name == ListEmpty {
					resp.Header.Set("Content-Type", "application/json")
					resp.Header.Del("Content-Encoding")
				}
				body, fault = other, f.Name
			}
		}
		a.gave(r, n, revision, fault)
	}
	for k, v := range resp.Header {
		w.Header()[k] = v
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(resp.StatusCode)
	_, _ = w.Write(body)
}

// ask sends a member's request to the real API.
func (a *RealAPI) ask(ctx context.Context, r *http.Request) (*http.Response, error) {
	to := *r.URL
	to.Scheme, to.Host, to.Path = a.base.Scheme, a.base.Host, strings.TrimSuffix(a.base.Path, "/")+r.URL.Path
	req, err := http.NewRequestWithContext(ctx, r.Method, to.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header = r.Header.Clone()
	if req.Header.Get("Accept-Encoding") == "" {
		req.Header.Set("Accept-Encoding", "identity") // otherwise the transport would decompress
	}
	return a.real.Transport.RoundTrip(req)
}

// instead answers in place of the API, if the fault is of that kind.
func (a *RealAPI) instead(w http.ResponseWriter, r *http.Request, f APIFault) bool {
	discovery := r.URL.Path == kubetest.Discovery || r.URL.Path == kubetest.Groups
	status, body := 0, ""
	switch {
	case discovery && f.Name == DiscoveryFlaps && r.URL.Path == kubetest.Discovery && a.faults.flap():
		status = http.StatusNotFound
	case discovery && f.Name == DiscoveryFails, f.Name == APIStatus:
		status = f.Status
	case discovery:
		return false
	case f.Name == ListOther && !r.URL.Query().Has("watch"):
		status, body = http.StatusOK, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`
	case f.Name == WatchGone && r.URL.Query().Has("watch"):
		status = http.StatusOK
		body = `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version","reason":"Expired","code":410}}` + "\n"
	default:
		return false
	}
	if body == "" {
		body = fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"fault","code":%d}`, status)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
	return true
}

// spoiled applies a fault to a list.
func spoiled(r *http.Request, body []byte, revision uint64, fault string) ([]byte, bool) {
	kind := kindOf(r.URL.Path)
	switch {
	case kind == "" || r.URL.Query().Has("limit"):
	case fault == ListShort && len(body) > 7:
		return body[:len(body)-7], true
	case fault == ListEmpty && r.URL.Query().Has("resourceVersion"):
		return fmt.Appendf(nil, `{"kind":"%sList","apiVersion":%q,"metadata":{"resourceVersion":"%d"},"items":[]}`, kind, kinds[kind].version, revision), true
	}
	return nil, false
}

// gave records an answer to a member. It ignores requests other than reads, such as one for a single item.
func (a *RealAPI) gave(r *http.Request, n *note, revision uint64, fault string) {
	q, kind, verb := r.URL.Query(), kindOf(r.URL.Path), "list"
	switch {
	case kind == "":
		kind, verb = "Discovery", "get"
	case q.Has("watch"):
		verb = "watch"
	case q.Has("limit"):
		return
	}
	a.rec.Read(history.Read{At: a.rec.Now(), Member: n.member, Kind: kind, Verb: verb, Revision: revision, Whole: fault == "", Fault: fault})
}

// passWatch passes a watch on, with the faults of watches.
func (a *RealAPI) passWatch(w http.ResponseWriter, r *http.Request, n *note) {
	ctx, end := context.WithCancel(r.Context())
	defer end()
	one := &watching{n.member, end}
	a.mu.Lock()
	a.watches[one] = true
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.watches, one)
	}()
	cut := -1
	for _, f := range a.faults.now(n.member, r.URL.Path) {
		switch f.Name {
		case WatchCut:
			cut = 300 // in the middle of the first event
		case NoBookmarks:
			q := r.URL.Query()
			q.Del("allowWatchBookmarks")
			r.URL.RawQuery = q.Encode()
		default:
			continue
		}
		n.fault = f.Name
	}
	resp, err := a.ask(ctx, r)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer resp.Body.Close()
	for k, v := range resp.Header {
		w.Header()[k] = v
	}
	w.WriteHeader(resp.StatusCode)
	a.gave(r, n, 0, n.fault)
	ctl := http.NewResponseController(w)
	_ = ctl.Flush()
	for buf := make([]byte, 32<<10); ; {
		got, err := resp.Body.Read(buf)
		for a.faults.has(n.member, WatchSilent) && ctx.Err() == nil {
			sleep(ctx, 20*time.Millisecond)
		}
		out := buf[:got]
		if cut >= 0 {
			out = out[:min(cut, len(out))]
			cut -= len(out)
		}
		if _, err := w.Write(out); err != nil {
			return
		}
		_ = ctl.Flush()
		switch {
		case errors.Is(err, io.EOF) && ctx.Err() == nil:
			return
		case err != nil || cut == 0:
			panic(http.ErrAbortHandler)
		}
	}
}

// listRevision returns the resourceVersion of a list in JSON or protobuf; 0 if there is none.
func listRevision(h http.Header, body []byte) uint64 {
	if h.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return 0
		}
		if body, err = io.ReadAll(io.LimitReader(unpacked, largestList)); err != nil {
			return 0
		}
	}
	var version string
	if raw, ok := bytes.CutPrefix(body, []byte("k8s\x00")); ok {
		// runtime.Unknown has the list as field 2, a list its metadata as field 1, and those the version as field 2.
		version = string(field(field(field(raw, 2), 1), 2))
	} else {
		var list struct {
			Metadata struct{ ResourceVersion string }
		}
		_ = json.Unmarshal(body, &list) // discovery has none
		version = list.Metadata.ResourceVersion
	}
	n, _ := strconv.ParseUint(version, 10, 64)
	return n
}

// field returns the first field with a number in a message, if it is a bytes field.
func field(message []byte, number protowire.Number) []byte {
	for len(message) > 0 {
		n, typ, size := protowire.ConsumeTag(message)
		if size < 0 {
			return nil
		}
		message = message[size:]
		if n == number && typ == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(message)
			return value
		}
		if size = protowire.ConsumeFieldValue(n, typ, message); size < 0 {
			return nil
		}
		message = message[size:]
	}
	return nil
}
