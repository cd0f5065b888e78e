package world

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/routesrv/routesrv/test/robustness/history"
	"github.com/routesrv/routesrv/test/robustness/traffic"
)

// kinds are the kinds that traffic writes.
var kinds = map[string]struct{ version, prefix, plural string }{
	traffic.Ingress:       {"networking.k8s.io/v1", "/apis/networking.k8s.io/v1", "ingresses"},
	traffic.RouteGroup:    {"zalando.org/v1", "/apis/zalando.org/v1", "routegroups"},
	traffic.Service:       {"v1", "/api/v1", "services"},
	traffic.EndpointSlice: {"discovery.k8s.io/v1", "/apis/discovery.k8s.io/v1", "endpointslices"},
}

// kindOf returns the kind that a path lists; empty for other paths.
func kindOf(path string) string {
	for kind, k := range kinds {
		if path == k.prefix+"/"+k.plural {
			return kind
		}
	}
	return ""
}

// writeLimit is how long a write may take. It only decides when to give up.
const writeLimit = time.Minute

// writes records the writes to a real API, and its deletion events.
type writes struct {
	stored     map[traffic.Key]string
	namespaces map[string]bool
	refused    map[string]int // writes that the API rejected, by class

	end      context.CancelFunc
	watching sync.WaitGroup

	mu      sync.Mutex
	deleted map[traffic.Key]uint64 // the revision of the last deletion
	news    chan struct{}          // closed and replaced with each deletion
	broken  error                  // why deletions are no longer known
}

func (w *writes) close() {
	w.end()
	w.watching.Wait()
}

// follow begins to watch deletions: the answer to a deletion does not contain its revision.
func (a *RealAPI) follow() error {
	ctx, end := context.WithCancel(context.Background())
	a.writes = writes{
		stored: make(map[traffic.Key]string), namespaces: make(map[string]bool), refused: make(map[string]int), end: end,
		deleted: make(map[traffic.Key]uint64), news: make(chan struct{}),
	}
	for kind, k := range kinds {
		resp, err := a.watch(ctx, k.prefix+"/"+k.plural)
		if err != nil {
			a.writes.close()
			return fmt.Errorf("real API: %w", err)
		}
		a.writes.watching.Go(func() {
			defer resp.Body.Close()
			err := a.writes.deletions(kind, resp.Body)
			a.writes.mu.Lock()
			defer a.writes.mu.Unlock()
			if ctx.Err() == nil {
				a.writes.broken = fmt.Errorf("the watch of deleted %s ended: %w", k.plural, err)
				close(a.writes.news)
				a.writes.news = make(chan struct{})
			}
		})
	}
	return nil
}

// watch begins a watch of all objects of a kind. A kind that was just installed has no storage for a moment.
func (a *RealAPI) watch(ctx context.Context, path string) (*http.Response, error) {
	for deadline := time.Now().Add(writeLimit); ; sleep(ctx, 100*time.Millisecond) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(a.real.URL, "/")+path+"?watch=true", nil)
		if err != nil {
			return nil, err
		}
		resp, err := a.client.Do(r)
		if err == nil && resp.StatusCode == http.StatusOK {
			return resp, nil
		}
		if err == nil {
			_ = resp.Body.Close()
			err = errors.New(resp.Status)
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("watch %s: %w", path, err)
		}
	}
}

// deletions reads a watch to its end.
func (w *writes) deletions(kind string, events io.Reader) error {
	for d := json.NewDecoder(events); ; {
		var e struct {
			Type   string
			Object struct {
				Metadata struct{ Namespace, Name, ResourceVersion string }
			}
		}
		if err := d.Decode(&e); err != nil {
			return err
		}
		if e.Type != "DELETED" {
			continue
		}
		m := e.Object.Metadata
		revision, err := strconv.ParseUint(m.ResourceVersion, 10, 64)
		if err != nil {
			return err
		}
		w.mu.Lock()
		w.deleted[traffic.Key{Kind: kind, Namespace: m.Namespace, Name: m.Name}] = revision
		close(w.news)
		w.news = make(chan struct{})
		w.mu.Unlock()
	}
}

// deletion waits until the API has reported a deletion of an object after a revision, and returns its revision.
func (w *writes) deletion(ctx context.Context, k traffic.Key, after uint64) (uint64, error) {
	for {
		w.mu.Lock()
		revision, news, err := w.deleted[k], w.news, w.broken
		w.mu.Unlock()
		switch {
		case revision > after:
			return revision, nil
		case err != nil:
			return 0, err
		}
		select {
		case <-news:
		case <-ctx.Done():
			return 0, fmt.Errorf("no word of the deletion of %s %s/%s: %w", k.Kind, k.Namespace, k.Name, ctx.Err())
		}
	}
}

// Refused returns how many writes the API rejected, by class. Call it after the last write.
func (a *RealAPI) Refused() map[string]int { return a.writes.refused }

// Apply implements [Cluster]. An object that the API rejects is counted, and is not a change.
func (a *RealAPI) Apply(w traffic.Write) error {
	ctx, cancel := context.WithTimeout(context.Background(), writeLimit)
	defer cancel()
	at := a.rec.Now()
	if w.Object == "" {
		return a.remove(ctx, w, at)
	}
	if err := a.namespace(ctx, w.Namespace); err != nil {
		return err
	}
	var object map[string]any
	if err := json.Unmarshal([]byte(w.Object), &object); err != nil {
		return fmt.Errorf("apply %s %s/%s: %w", w.Kind, w.Namespace, w.Name, err)
	}
	// Fields that the API sets itself.
	delete(object["metadata"].(map[string]any), "creationTimestamp")
	if spec, ok := object["spec"].(map[string]any); ok {
		delete(spec, "clusterIP")
	}
	text, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("apply %s %s/%s: %w", w.Kind, w.Namespace, w.Name, err)
	}
	status, body, err := a.do(ctx, http.MethodPatch, a.path(w.Key)+"?fieldManager=robustness&force=true", "application/apply-patch+yaml", text)
	switch {
	case err != nil:
		return fmt.Errorf("apply %s %s/%s: %w", w.Kind, w.Namespace, w.Name, err)
	case status == http.StatusUnprocessableEntity || status == http.StatusBadRequest:
		a.writes.refused[w.Class]++
		return nil
	case status != http.StatusOK && status != http.StatusCreated:
		return fmt.Errorf("apply %s %s/%s: status %d: %.300s", w.Kind, w.Namespace, w.Name, status, body)
	}
	revision, err := revisionOf(body)
	if err != nil {
		return fmt.Errorf("apply %s %s/%s: %w", w.Kind, w.Namespace, w.Name, err)
	}
	if a.writes.stored[w.Key] == string(body) {
		return nil // writing the same object again is not a write
	}
	a.writes.stored[w.Key] = string(body)
	a.rec.Change(history.Change{
		At: at, Revision: revision, Kind: w.Kind, Namespace: w.Namespace, Name: w.Name, Object: string(body), Class: w.Class,
	})
	return nil
}

func (a *RealAPI) remove(ctx context.Context, w traffic.Write, at time.Duration) error {
	stored := a.writes.stored[w.Key]
	if stored == "" {
		return nil // it was rejected
	}
	before, err := revisionOf([]byte(stored))
	if err != nil {
		return err
	}
	status, body, err := a.do(ctx, http.MethodDelete, a.path(w.Key), "", nil)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("status %d: %.300s", status, body)
	}
	if err != nil {
		return fmt.Errorf("delete %s %s/%s: %w", w.Kind, w.Namespace, w.Name, err)
	}
	revision, err := a.writes.deletion(ctx, w.Key, before)
	if err != nil {
		return err
	}
	delete(a.writes.stored, w.Key)
	a.rec.Change(history.Change{At: at, Revision: revision, Kind: w.Kind, Namespace: w.Namespace, Name: w.Name, Class: w.Class})
	return nil
}

// namespace creates a namespace, once.
func (a *RealAPI) namespace(ctx context.Context, name string) error {
	if a.writes.namespaces[name] {
		return nil
	}
	text := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, name)
	status, body, err := a.do(ctx, http.MethodPost, "/api/v1/namespaces", "application/json", text)
	if err == nil && status != http.StatusCreated && status != http.StatusConflict {
		err = fmt.Errorf("status %d: %.300s", status, body)
	}
	if err != nil {
		return fmt.Errorf("create namespace %s: %w", name, err)
	}
	a.writes.namespaces[name] = true
	return nil
}

func (a *RealAPI) path(k traffic.Key) string {
	return kinds[k.Kind].prefix + "/namespaces/" + url.PathEscape(k.Namespace) + "/" + kinds[k.Kind].plural + "/" + url.PathEscape(k.Name)
}

// do sends a request directly to the real API.
func (a *RealAPI) do(ctx context.Context, method, path, media string, body []byte) (status int, answer []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(a.real.URL, "/")+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if media != "" {
		r.Header.Set("Content-Type", media)
	}
	resp, err := a.client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(resp.Body, largestList))
	return resp.StatusCode, answer, err
}

func revisionOf(object []byte) (uint64, error) {
	var o struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := json.Unmarshal(object, &o); err != nil {
		return 0, err
	}
	return strconv.ParseUint(o.Metadata.ResourceVersion, 10, 64)
}
