package board

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/httpserve"
)

//go:embed assets
var assets embed.FS

// The policies for the pages of the board and of the consoles. The consoles work without scripts. A script of one cluster could
// read the pages of another one, because the board is the origin of all.
const (
	policy        = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	consolePolicy = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)

const (
	refreshEvery = 250 * time.Millisecond // between two batches for a browser
	writeTime    = 10 * time.Second       // for a browser to take one
	heartbeat    = 15 * time.Second
	passTime     = 30 * time.Second // for a page of a console
	consoleEvery = "10"             // seconds between two refreshes of the overview of a console
)

var page = template.Must(template.New("board.html").Funcs(template.FuncMap{
	"id":     func(name string) string { return "c-" + url.PathEscape(name) },
	"path":   func(name string) string { return "c/" + url.PathEscape(name) + "/" },
	"clock":  func(t time.Time) string { return t.UTC().Format("15:04:05") },
	"stamp":  func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"digest": func(v any) string { return first(fmt.Sprint(v), 12) },
	"days":   func(s float64) string { return daysText(time.Duration(s * float64(time.Second))) },
	"share": func(n int, modes map[string]int) int {
		all := modes["False"] + modes["Pre"] + modes["Exec"]
		return 100 * n / max(1, all)
	},
}).ParseFS(assets, "assets/board.html"))

func first(s string, n int) string { return s[:min(n, len(s))] }

// daysText formats a duration in its two largest units.
func daysText(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d d %d h", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%d min", d/time.Minute)
}

// Serve serves the page on a listener of the loopback interface until ctx ends, and queries the clusters meanwhile. It returns
// once everything it started has stopped.
func (b *Board) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	srv := &http.Server{
		Handler: b.Handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l); cancel() }()
	b.Run(ctx)
	stopping, stop := context.WithTimeout(context.Background(), 2*time.Second)
	defer stop()
	if srv.Shutdown(stopping) != nil {
		_ = srv.Close()
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Handler returns the pages of the board.
func (b *Board) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", b.servePage)
	mux.HandleFunc("GET /events", b.serveEvents)
	mux.HandleFunc("GET /assets/{file}", serveAsset)
	mux.HandleFunc("GET /c/{name}/{path...}", b.serveConsole)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		httpserve.SecurePage(w.Header(), policy)
		w.Header().Set("Cache-Control", "no-store")
		if !httpserve.NamedRight(r) {
			http.Error(w, "this address is for a person on this machine: use http://127.0.0.1", http.StatusMisdirectedRequest)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func serveAsset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	ext := path.Ext(name)
	body, err := assets.ReadFile("assets/" + path.Base(name))
	if err != nil || ext != ".css" && ext != ".js" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", mime.TypeByExtension(ext))
	_, _ = w.Write(body)
}

// tally is how many clusters have each state.
type tally struct {
	Total  int
	States []api.BoardCount
}

// since returns the clusters that changed after a version, a tally of all, the present version, and a channel that is closed at the next change.
func (b *Board) since(version uint64) (changed []api.BoardCluster, all tally, now uint64, next <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at, counts := time.Now(), make(map[string]int)
	for _, c := range b.clusters {
		d := c.judged(at)
		counts[d.State]++
		if c.version > version || version == 0 {
			changed = append(changed, d)
		}
	}
	for _, state := range []string{api.BoardAway, api.BoardBad, api.BoardNotice, api.BoardAsking, api.BoardGood} {
		all.States = append(all.States, api.BoardCount{Name: state, Count: counts[state]})
	}
	all.Total = len(b.clusters)
	return changed, all, b.version, b.changed
}

func (b *Board) servePage(w http.ResponseWriter, _ *http.Request) {
	clusters, all, _, _ := b.since(0)
	var body bytes.Buffer
	if err := page.ExecuteTemplate(&body, "board.html", map[string]any{"Tally": all, "Clusters": clusters, "CleanFor": daysText(b.cfg.CleanFor)}); err != nil {
		http.Error(w, "this page could not be made", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(body.Bytes())
}

// serveEvents sends the tiles of clusters that changed, each as it is now. A browser that reads slowly gets fewer of them.
func (b *Board) serveEvents(w http.ResponseWriter, r *http.Request) {
	done, ok := b.watching.Wait(r.Context(), time.Second)
	if !ok {
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return
	}
	defer done()
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // the stream does not end
	w.Header().Set("Content-Type", api.StreamType)
	w.Header().Set("X-Accel-Buffering", "no") // nginx would keep the events
	seen, beat := uint64(0), time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		changed, all, now, next := b.since(seen)
		batch, err := events(changed, all)
		if err == nil {
			err = control.SetWriteDeadline(time.Now().Add(writeTime))
		}
		if err == nil {
			_, err = w.Write(batch)
		}
		if err == nil {
			err = control.Flush()
		}
		if err != nil {
			return
		}
		seen = now
		select {
		case <-r.Context().Done():
			return
		case <-next:
		case <-beat.C:
		}
		select {
		case <-r.Context().Done():
			return
		case <-time.After(refreshEvery):
		}
	}
}

// events renders the tally, and a tile for each cluster.
func events(changed []api.BoardCluster, all tally) ([]byte, error) {
	var out, html bytes.Buffer
	add := func(name string, v any) error {
		html.Reset()
		if err := page.ExecuteTemplate(&html, name, v); err != nil {
			return err
		}
		text, err := json.Marshal(html.String())
		fmt.Fprintf(&out, "data: %s\n\n", text)
		return err
	}
	err := add("tally", all)
	for i := range changed {
		if err == nil {
			err = add("tile", &changed[i])
		}
	}
	return out.Bytes(), err
}

// serveConsole passes a page of the console of a cluster through. No cookie and no other credential passes in either direction.
func (b *Board) serveConsole(w http.ResponseWriter, r *http.Request) {
	i := slices.IndexFunc(b.clusters, func(c *cluster) bool { return c.Name == r.PathValue("name") })
	if i < 0 {
		http.NotFound(w, r)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), passTime)
	defer cancel()
	done, ok := b.passing.Wait(ctx, 5*time.Second)
	if !ok {
		http.Error(w, "too many pages at a time", http.StatusServiceUnavailable)
		return
	}
	defer done()
	b.mu.Lock()
	at, why := b.clusters[i].target, b.clusters[i].doc.Error
	b.mu.Unlock()
	if at == nil {
		http.Error(w, "the cluster does not answer: "+cmp.Or(why, "it was not asked yet"), http.StatusBadGateway)
		return
	}
	to := url.URL{Path: "/" + r.PathValue("path"), RawQuery: r.URL.RawQuery}
	resp, err := at.Support.Get(ctx, to.String(), cmp.Or(cut(r.Header.Get("Accept")), "*/*"))
	if err != nil {
		http.Error(w, "the cluster does not answer: "+cut(cause(ctx, err).Error()), http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		http.Error(w, "the console answers with a redirect, which is not followed", http.StatusBadGateway)
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", consolePolicy)
	h.Set("Content-Type", cmp.Or(resp.Header.Get("Content-Type"), "application/octet-stream"))
	if to.Path == "/" {
		h.Set("Refresh", consoleEvery)
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, io.LimitReader(resp.Body, maxAnswer))
}
