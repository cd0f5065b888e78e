package history_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/publish/history"
)

var start = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

// ingress is an object at a version.
func ingress(namespace, name, version string) *kube.Ingress {
	return &kube.Ingress{
		Meta: kube.Meta{Namespace: namespace, Name: name, Changed: "2026-11-25T12:00:00Z " + version, Annotations: kube.Pairs{{Key: "zalando.org/skipper-filter", Value: version}}},
		Spec: &kube.IngressSpec{Rules: []kube.IngressRule{{Host: name + ".example.org"}}},
	}
}

// world is what is served.
type world struct {
	h       *history.History
	objects map[string]*kube.Ingress
	filters *kube.DefaultFilters
	times   int
}

func (w *world) set(name, version string) {
	if version == "" {
		delete(w.objects, name)
		return
	}
	namespace, short, _ := strings.Cut(name, "/")
	w.objects[name] = ingress(namespace, short, version)
}

func (w *world) intent() *kube.Intent {
	i := &kube.Intent{DefaultFilters: w.filters}
	for _, o := range w.objects {
		i.Ingresses = append(i.Ingresses, o)
	}
	return i
}

func (w *world) record(decisions ...api.Decision) {
	w.times++
	w.h.Record(api.HistoryEntry{At: start.Add(time.Duration(w.times) * time.Minute), Decisions: decisions}, w.intent())
}

// open opens the history in a folder, which must find nothing wrong unless said is not nil.
func open(t *testing.T, folder string, limit int64, said *bytes.Buffer) *history.History {
	t.Helper()
	var log bytes.Buffer
	if said == nil {
		said = &log
		t.Cleanup(func() {
			if log.Len() > 0 {
				t.Errorf("unexpected: %s", log.String())
			}
		})
	}
	h := history.Open(history.Config{Folder: folder, Limit: limit, Log: slog.New(slog.NewTextHandler(said, nil))})
	t.Cleanup(h.Close)
	return h
}

func everything(kube.Ref) bool { return true }

// versions returns the filters of all objects as of an entry.
func versions(t *testing.T, h *history.History, n uint64) string {
	t.Helper()
	found, err := h.Versions(n, everything)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for ref, v := range found {
		if v.Ingress != nil {
			all[ref.Namespace+"/"+ref.Name] = v.Ingress.Annotations[0].Value
		}
	}
	return fmt.Sprint(all)
}

func TestWhatWasServedIsFound(t *testing.T) {
	for name, folder := range map[string]string{"in memory": "", "in a folder": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			w := &world{h: open(t, folder, 0, nil), objects: map[string]*kube.Ingress{}}
			w.set("shop/cart", "1")
			w.set("shop/pay", "1")
			w.record()
			w.set("shop/cart", "2")
			w.record()
			w.record() // nothing changed
			w.set("shop/pay", "")
			w.set("team/new", "1")
			w.record()
			w.record(api.Decision{What: api.DecidedAccepted, By: "ann"})
			check := func() {
				t.Helper()
				for n, want := range []string{"map[shop/cart:1 shop/pay:1]", "map[shop/cart:2 shop/pay:1]", "map[shop/cart:2 team/new:1]", "map[shop/cart:2 team/new:1]"} {
					if got := versions(t, w.h, uint64(n+1)); got != want {
						t.Errorf("entry %d: %s, want %s", n+1, got, want)
					}
				}
				if _, err := w.h.Versions(9, everything); !errors.Is(err, history.ErrNoEntry) {
					t.Errorf("error %v", err)
				}
				e, err := w.h.Entry(3)
				want := []api.HistoryChange{
					{Ref: kube.Ref{Kind: kube.KindIngress, Namespace: "shop", Name: "pay"}, What: api.ObjectDeleted},
					{Ref: kube.Ref{Kind: kube.KindIngress, Namespace: "team", Name: "new"}, What: api.ObjectCreated, By: "2026-11-25T12:00:00Z 1"},
				}
				if err != nil || !reflect.DeepEqual(e.Changes, want) || e.Count != 2 {
					t.Errorf("entry 3 is %+v, %v", e, err)
				}
				if e, ok := w.h.At(start.Add(3*time.Minute + time.Second)); !ok || e.N != 2 {
					t.Errorf("at 12:03 entry %d, %v", e.N, ok)
				}
				if _, ok := w.h.At(start); ok {
					t.Error("an entry before the first one")
				}
			}
			check()
			if folder == "" {
				return
			}
			w.h.Close()
			w.h = open(t, folder, 0, nil)
			check()
			w.record() // the same objects, from other pointers
			w.set("shop/cart", "3")
			w.record()
			check()
			if got := versions(t, w.h, 5); got != "map[shop/cart:3 team/new:1]" {
				t.Errorf("after a restart: %s", got)
			}
			files, err := filepath.Glob(filepath.Join(folder, "*"))
			if err != nil || len(files) != 1 {
				t.Errorf("files %v, %v", files, err)
			}
			for _, f := range files {
				if info, err := os.Stat(f); err != nil || info.Mode() != 0o600 {
					t.Errorf("%s: %v, %v", f, info.Mode(), err)
				}
			}
		})
	}
}

// TestWhatChangedWhileNobodyLooked: the served versions are known after a restart.
func TestWhatChangedWhileNobodyLooked(t *testing.T) {
	folder := t.TempDir()
	w := &world{h: open(t, folder, 0, nil), objects: map[string]*kube.Ingress{}}
	for _, name := range []string{"shop/same", "shop/changed", "shop/deleted"} {
		w.set(name, "1")
	}
	if got, known := w.h.Changed(&kube.Snapshot{Intent: *w.intent()}); known || len(got) != 0 {
		t.Errorf("a history without entries knows %v", got)
	}
	w.record()
	w.h.Close()
	w.h = open(t, folder, 0, nil)
	w.set("shop/same", "1")
	w.set("shop/changed", "2")
	w.set("shop/deleted", "")
	w.set("shop/created", "1")
	got, _ := w.h.Changed(&kube.Snapshot{Intent: *w.intent()})
	if len(got) != 3 {
		t.Errorf("changed are %v", got)
	}
	ref := func(name string) kube.Ref { return kube.Ref{Kind: kube.KindIngress, Namespace: "shop", Name: name} }
	for name, version := range map[string]string{"changed": "1", "deleted": "1"} {
		if o, ok := got[ref(name)].(*kube.Ingress); !ok || o.Annotations[0].Value != version {
			t.Errorf("%s was %+v", name, got[ref(name)])
		}
	}
	if o, known := got[ref("created")]; !known || o != nil {
		t.Errorf("created was %+v", o)
	}
}

// TestTheHistoryIsBounded: the oldest entries go, and all that stay can be read.
func TestTheHistoryIsBounded(t *testing.T) {
	for name, folder := range map[string]string{"in memory": "", "in a folder": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			const limit = 64 << 10
			w := &world{h: open(t, folder, limit, nil), objects: map[string]*kube.Ingress{}}
			for i := range 50 {
				w.set(fmt.Sprintf("shop/app-%d", i), "0")
			}
			want := map[uint64]string{}
			random := rand.New(rand.NewPCG(1, 2))
			for i := range 600 {
				name := fmt.Sprintf("shop/app-%d", random.IntN(60))
				w.set(name, fmt.Sprint(i, random.Uint64(), random.Uint64()))
				if random.IntN(8) == 0 {
					w.set(name, "")
				}
				w.record()
				if newest := w.h.Entries(time.Time{}, 1, func(*api.HistoryEntry) bool { return true }); len(newest) == 1 {
					all := map[string]string{}
					for name, o := range w.objects {
						all[name] = o.Annotations[0].Value
					}
					want[newest[0].N] = fmt.Sprint(all)
				}
			}
			check := func() {
				t.Helper()
				entries := w.h.Entries(time.Time{}, 1000, func(*api.HistoryEntry) bool { return true })
				if len(entries) < 20 || len(entries) > 500 {
					t.Errorf("%d entries", len(entries))
				}
				for _, e := range entries {
					if got := versions(t, w.h, e.N); got != want[e.N] {
						t.Fatalf("entry %d:\n%s, want\n%s", e.N, got, want[e.N])
					}
				}
			}
			check()
			if folder == "" {
				return
			}
			total := int64(0)
			files, _ := filepath.Glob(filepath.Join(folder, "*"))
			for _, f := range files {
				info, err := os.Stat(f)
				if err != nil {
					t.Fatal(err)
				}
				total += info.Size()
			}
			if total > limit*5/4 {
				t.Errorf("%d bytes in %d files, the limit is %d", total, len(files), limit)
			}
			w.h.Close()
			w.h = open(t, folder, limit, nil)
			check()
		})
	}
}

// TestATornFileCostsItsEnd: what comes before is used, and the history goes on.
func TestATornFileCostsItsEnd(t *testing.T) {
	folder := t.TempDir()
	w := &world{h: open(t, folder, 0, nil), objects: map[string]*kube.Ingress{}}
	for i := range 5 {
		w.set("shop/cart", fmt.Sprint(i))
		w.record()
	}
	w.h.Close()
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for cut := len(whole) - 1; cut > 0; cut -= 37 {
		folder := t.TempDir()
		if err := os.WriteFile(filepath.Join(folder, filepath.Base(files[0])), whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		h := open(t, folder, 0, &said)
		before := h.Entries(time.Time{}, 10, func(*api.HistoryEntry) bool { return true })
		for _, e := range before {
			if got, want := versions(t, h, e.N), fmt.Sprintf("map[shop/cart:%d]", e.N-1); got != want {
				t.Errorf("cut at %d, entry %d: %s, want %s", cut, e.N, got, want)
			}
		}
		w := &world{h: h, objects: map[string]*kube.Ingress{}, times: 9}
		w.set("shop/cart", "after")
		w.record()
		newest := h.Entries(time.Time{}, 1, func(*api.HistoryEntry) bool { return true })
		if len(newest) != 1 || versions(t, h, newest[0].N) != "map[shop/cart:after]" {
			t.Errorf("cut at %d: after it %+v", cut, newest)
		}
		h.Close()
		again := open(t, folder, 0, &said)
		if got := versions(t, again, newest[0].N); got != "map[shop/cart:after]" {
			t.Errorf("cut at %d, opened again: %s", cut, got)
		}
	}
}

// TestOnlyWhatTheCompilerReadsIsStored: other annotations are nobody's business.
func TestOnlyWhatTheCompilerReadsIsStored(t *testing.T) {
	folder := t.TempDir()
	h := history.Open(history.Config{Folder: folder, Bare: func(m kube.Meta) kube.Meta {
		m.Annotations = nil
		return m
	}})
	h.Record(api.HistoryEntry{At: start}, &kube.Intent{Ingresses: []*kube.Ingress{ingress("shop", "cart", "hunter2")}})
	found, err := h.Versions(1, everything)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range found {
		if v.Ingress != nil && len(v.Ingress.Annotations) != 0 {
			t.Errorf("stored: %+v", v.Ingress)
		}
	}
	h.Close()
}

// FuzzSegment: a file may have anything.
func FuzzSegment(f *testing.F) {
	folder := f.TempDir()
	h := history.Open(history.Config{Folder: folder})
	h.Record(api.HistoryEntry{At: start}, &kube.Intent{Ingresses: []*kube.Ingress{ingress("shop", "cart", "1")}})
	h.Close()
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || len(files) != 1 {
		f.Fatal(files, err)
	}
	whole, err := os.ReadFile(files[0])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add(append(bytes.Clone(whole), whole...))
	f.Add([]byte("\xff\xff\xff\xff\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		folder := t.TempDir()
		if err := os.WriteFile(filepath.Join(folder, "000000000001.history"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		h := history.Open(history.Config{Folder: folder})
		defer h.Close()
		h.Record(api.HistoryEntry{At: start.Add(time.Hour)}, &kube.Intent{Ingresses: []*kube.Ingress{ingress("shop", "cart", "2")}})
		newest := h.Entries(time.Time{}, 1, func(*api.HistoryEntry) bool { return true })
		if len(newest) != 1 {
			t.Fatal("no entry")
		}
		if _, err := h.Versions(newest[0].N, everything); err != nil {
			t.Fatal(err)
		}
	})
}

// TestAnotherReplicaTakesItOver: all entries and versions, also while it is written, and whatever is cut off.
func TestAnotherReplicaTakesItOver(t *testing.T) {
	for name, folder := range map[string]string{"in memory": "", "in a folder": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			const limit = 32 << 10
			w := &world{h: open(t, folder, limit, nil), objects: map[string]*kube.Ingress{}}
			for i := range 300 { // several segments
				w.set(fmt.Sprintf("shop/app-%d", i%40), strings.Repeat(fmt.Sprint(i), 20))
				w.record()
			}
			var passed bytes.Buffer
			if err := w.h.Export(&passed); err != nil {
				t.Fatal(err)
			}
			all := w.h.Entries(time.Time{}, 1000, func(*api.HistoryEntry) bool { return true })
			other := open(t, t.TempDir(), 0, nil)
			if !other.Empty() {
				t.Error("it is not empty")
			}
			if err := other.Import(bytes.NewReader(passed.Bytes())); err != nil {
				t.Fatal(err)
			}
			if got := other.Entries(time.Time{}, 1000, func(*api.HistoryEntry) bool { return true }); !reflect.DeepEqual(got, all) || len(all) < 20 {
				t.Fatalf("%d entries, want %d", len(got), len(all))
			}
			for _, e := range all {
				if got, want := versions(t, other, e.N), versions(t, w.h, e.N); got != want {
					t.Fatalf("entry %d: %s, want %s", e.N, got, want)
				}
			}
			last := &world{h: other, objects: w.objects, times: 1000}
			last.record() // nothing new
			last.set("shop/app-1", "next")
			last.record()
			if got := other.Entries(time.Time{}, 1, func(*api.HistoryEntry) bool { return true }); got[0].N != all[0].N+1 || got[0].Count != 1 {
				t.Errorf("the next entry is %+v", got)
			}
			for _, cut := range []int{0, 3, 500, passed.Len() / 2, passed.Len() - 1} {
				torn := open(t, "", 0, nil)
				if err := torn.Import(bytes.NewReader(passed.Bytes()[:cut])); err == nil {
					t.Errorf("cut at %d: no error", cut)
				}
				for _, e := range torn.Entries(time.Time{}, 1000, func(*api.HistoryEntry) bool { return true }) {
					versions(t, torn, e.N)
				}
			}
		})
	}
}
