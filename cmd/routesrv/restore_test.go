package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// shops is a folder with a manifest for each shop, and the backend of all of them.
type shops struct {
	dir  string
	size int
}

func newShops(t *testing.T, size int) *shops {
	t.Helper()
	s := &shops{t.TempDir(), size}
	_, backend, _ := strings.Cut(ingressForm, "---\n")
	s.write(t, "backend.yaml", backend)
	s.apply(t, 0, size)
	return s
}

func (s *shops) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (s *shops) name(i int) string { return fmt.Sprintf("shop-%d", i) }

func (s *shops) apply(t *testing.T, from, to int) {
	t.Helper()
	ingress, _, _ := strings.Cut(fmt.Sprintf(ingressForm, "/"), "---\n")
	for i := from; i < to; i++ {
		s.write(t, s.name(i)+".yaml", strings.NewReplacer("{name: web, namespace", "{name: "+s.name(i)+", namespace",
			"shop.example.org", s.name(i)+".example.org").Replace(ingress))
	}
}

func (s *shops) deleteAll(t *testing.T) {
	t.Helper()
	for i := range s.size {
		if err := os.Remove(filepath.Join(s.dir, s.name(i)+".yaml")); err != nil {
			t.Fatal(err)
		}
	}
}

// watcher asks for the table all the time, and remembers the first one that did not answer for every shop.
type watcher struct {
	tables int
	lost   string
}

// watch asks the process that runs until ctx ends. While none answers, proxies keep what they have.
func (s *shops) watch(ctx context.Context, running *atomic.Pointer[process]) *watcher {
	w := &watcher{}
	for ctx.Err() == nil {
		p := running.Load()
		status, body, err := p.get(p.main + "/routes")
		if err != nil {
			continue
		}
		if status != http.StatusOK && w.lost == "" {
			w.lost = fmt.Sprintf("status %d", status)
		}
		w.tables++
		for i := range s.size {
			if !strings.Contains(body, "kube_shop__"+strings.ReplaceAll(s.name(i), "-", "_")+"__") && w.lost == "" {
				w.lost = fmt.Sprintf("no route of %s in %d lines", s.name(i), strings.Count(body, "\n"))
			}
		}
	}
	return w
}

// held returns the guard's part of /status.
func (p *process) held() (s struct {
	Held      bool
	Reason    string
	Routes    int
	ReleaseAt string `json:"release_at"`
}) {
	p.t.Helper()
	var status struct{ Guard json.RawMessage }
	p.eventually("/status", func() bool {
		_, body, err := p.get(p.support + "/status")
		return err == nil && json.Unmarshal([]byte(body), &status) == nil && json.Unmarshal(status.Guard, &s) == nil
	})
	return s
}

// TestARestoreAcrossCrashesIsNeverServedInParts: all objects but a few are deleted and applied again in steps. The process is killed
// after the loss and after steps. Whoever asks gets every shop in every answer, and in the end no table is held.
func TestARestoreAcrossCrashesIsNeverServedInParts(t *testing.T) {
	s := newShops(t, 60)
	state := t.TempDir()
	var running atomic.Pointer[process]
	begin := func() *process {
		p := start(t, "", "--manifests="+s.dir, "-source-poll-timeout=100", "--state-dir="+state)
		running.Store(p)
		return p
	}
	p := begin()
	p.ready()
	ctx, cancel := context.WithCancel(t.Context())
	var seen *watcher
	var watching sync.WaitGroup
	watching.Go(func() { seen = s.watch(ctx, &running) })

	s.deleteAll(t)
	const reason = "only_generated"
	p.eventually("a hold of generated routes alone", func() bool { return p.held().Reason == reason })
	for back := 5; back < s.size; back += 5 {
		p.eventually("the kept objects on the disk", func() bool {
			text, err := os.ReadFile(filepath.Join(state, "table.eskip.kept.json"))
			return err == nil && strings.Contains(string(text), reason)
		})
		if err := p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = p.cmd.Wait()
		s.apply(t, back-5, back)
		p = begin()
		p.waitFor("objects that the previous process kept stay kept")
		p.eventually("a hold of what is back", func() bool { return p.held().Routes >= back })
		if h := p.held(); !h.Held || h.Reason != reason {
			t.Fatalf("%d of %d shops are back: %+v", back, s.size, h)
		}
	}
	s.apply(t, 0, s.size)
	p.eventually("the end of the hold", func() bool { return !p.held().Held })
	cancel()
	watching.Wait()
	if seen.lost != "" || seen.tables == 0 {
		t.Errorf("%d tables: %s", seen.tables, seen.lost)
	}
}
