package kubetest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/routesrv/routesrv/kube"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

func (o *watcher) concerns(obj *object) bool {
	return obj != nil && obj.ref.Kind == o.kind && (o.namespace == "" || obj.ref.Namespace == o.namespace) && selected(obj.labels, o.selector)
}

// run sends events until ctx ends.
func (o *watcher) run(ctx context.Context) {
	idle := time.NewTicker(bookmarkInterval)
	defer idle.Stop()
	for due := false; ; {
		o.server.mu.Lock()
		news := o.server.news
		var next []occurrence
		var reached kube.Revision
		mark := due || o.server.bookmarks != o.marked
		if !o.muted() {
			next = o.server.since(o.sent)
			reached = max(o.server.revision, o.sent) // a watch from the future stays silent
			o.sent, o.marked = reached, o.server.bookmarks
		} else {
			mark = false
		}
		future := o.server.revision < o.sent
		o.server.mu.Unlock()
		for _, e := range next {
			if !o.send(e) {
				return
			}
		}
		if mark && !future && !o.sendBookmark(reached) {
			return
		}
		due = false
		select {
		case <-news:
		case <-idle.C:
			due = true
		case <-o.last:
			due = true
		case <-ctx.Done():
			return
		}
	}
}

// send sends a write as this watch sees it, and reports whether the watch continues.
func (o *watcher) send(e occurrence) bool {
	was, is := o.concerns(e.before), o.concerns(e.now)
	switch {
	case was && is:
		return o.sendEvent(watch.Modified, e.now.json, e.revision)
	case is:
		return o.sendEvent(watch.Added, e.now.json, e.revision)
	case was:
		return o.sendEvent(watch.Deleted, e.before.json, e.revision)
	}
	return true
}

func (o *watcher) sendBookmark(revision kube.Revision) bool {
	if !o.bookmarks || o.fault.NoBookmarks {
		return true
	}
	return o.sendEvent(watch.Bookmark, []byte(`{"metadata":{}}`), revision)
}

// sendEvent sends an object with its revision.
func (o *watcher) sendEvent(kind watch.EventType, object []byte, revision kube.Revision) bool {
	var raw map[string]json.RawMessage
	var meta map[string]json.RawMessage
	if json.Unmarshal(object, &raw) != nil || json.Unmarshal(raw["metadata"], &meta) != nil {
		panic("an object that was stored does not parse") // programming error: it was parsed before
	}
	o.server.mu.Lock()
	o.server.answered(o.ctx, Answer{o.kind, "watch", revision, http.StatusOK})
	o.server.mu.Unlock()
	meta["resourceVersion"] = json.RawMessage(`"` + strconv.FormatUint(uint64(revision), 10) + `"`)
	raw["metadata"], _ = json.Marshal(meta) // a map of valid JSON
	claimed := metav1.TypeMeta{
		Kind: string(cmp.Or(o.fault.Kind, o.kind)), APIVersion: cmp.Or(o.fault.APIVersion, apiVersion(o.kind)),
	}
	raw["kind"], raw["apiVersion"] = json.RawMessage(`"`+claimed.Kind+`"`), json.RawMessage(`"`+claimed.APIVersion+`"`)
	text, _ := json.Marshal(raw)
	return o.write(kind, text)
}

// sendError sends an error that ends the watch.
func (o *watcher) sendError(code int, reason metav1.StatusReason, message string) {
	a := failure(code, reason, message, false)
	o.write(watch.Error, a.body)
}

// write sends one frame, and reports whether the watch continues.
func (o *watcher) write(kind watch.EventType, object []byte) bool {
	frame := fmt.Appendf(nil, `{"type":%q,"object":%s}`+"\n", kind, bytes.TrimSpace(object))
	if o.events++; o.fault.Cut != 0 && o.events > o.fault.Cut {
		_, _ = o.w.Write(frame[:len(frame)/2])
		o.flush()
		o.server.mu.Lock()
		o.dropped = true
		o.server.mu.Unlock()
		return false
	}
	if _, err := o.w.Write(frame); err != nil {
		return false
	}
	o.flush()
	return true
}

func (o *watcher) flush() { _ = http.NewResponseController(o.w).Flush() }

// watchPath matches paths that can be watched.
func watchPath(r *http.Request) []string {
	if w := r.URL.Query().Get("watch"); r.Method != http.MethodGet || w != "true" && w != "1" {
		return nil
	}
	m := resourcePath.FindStringSubmatch(r.URL.Path)
	if m == nil || m[3] != "" {
		return nil
	}
	return m
}
