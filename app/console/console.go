// Package console implements the web pages for operators: the overview at / of the support listener, and the list of clients.
//
// Pages are rendered on the server and work without JavaScript; with it, a script fetches the page every few seconds and applies
// the changes. The content security policy allows only files of the binary, and no inline scripts or styles.
//
// The pages change nothing: they show the command that accepts a held table in the pod. Like /status, they hide nothing from
// anyone who can reach the listener. A page shows the first rows of each list. At most four pages are rendered concurrently, and
// the fleet is queried at most once every two seconds for all viewers.
package console

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"fmt"
	"html/template"
	"log/slog"
	"mime"
	"net/http"
	"path"
	"reflect"
	"strconv"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/httpserve"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/fleet"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/poller"
	"github.com/routesrv/routesrv/shadowdiff"
)

// Config provides the data for the pages. State is required; every other function may be nil. All of them must be
// safe for concurrent use.
type Config struct {
	Name    string // of the host; may be empty
	Version string // of the program
	Relay   bool   // the server fetches its table from another route server

	// State returns the state of the table, the source and the guard.
	State func() Server
	// Problems returns the problems of the objects. nil on a relay, which knows none.
	Problems func() []poller.Problem
	// AcceptCommand accepts a held table in the pod, such as "routesrv accept".
	AcceptCommand string
	// Fleet returns the clients that match. nil means that no fleet is known.
	Fleet func(context.Context, fleet.Query) (fleet.Clients, error)
	// History returns the last entries of the history, the newest first. nil on a relay, which has none.
	History func(n int) []api.HistoryEntry
	// Every is how often a page with JavaScript updates; 0 means DefaultEvery.
	Every time.Duration

	Logger *slog.Logger // nil means no log
}

// DefaultEvery is how often a page updates by default.
const DefaultEvery = 3 * time.Second

// Server describes the server.
type Server struct {
	api.Status
	Origin string    // of the table: "cluster", "manifests", or the URL of the server above a relay
	Since  time.Time // when this process began to serve the table
	Newest *Change   // the newest change in the history; nil if it is unknown, as on a relay
}

// Change is the last change of an object.
type Change struct {
	At     time.Time
	Object kube.Ref
	By     string // the field manager, a name that clients choose
}

// Console answers the requests for pages. Make one with [New]. It is safe for concurrent use.
type Console struct {
	cfg   Config
	log   *slog.Logger
	turns httpserve.Turns
	fleet remembered
}

// Limits of pages.
const (
	maxPages      = 4                // rendered concurrently
	pageWait      = 5 * time.Second  // for a free slot
	pageTimeout   = 20 * time.Second // to render a page
	maxQueryBytes = 8 << 10
)

// New returns the console. It panics if State is nil, which is a programming error.
func New(cfg Config) *Console {
	if cfg.State == nil {
		panic("console: State is required")
	}
	cfg.Logger, cfg.Every = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)), cmp.Or(cfg.Every, DefaultEvery)
	c := &Console{cfg: cfg, log: cfg.Logger, turns: make(httpserve.Turns, maxPages)}
	c.fleet.ask, c.fleet.turn = cfg.Fleet, make(httpserve.Turns, 1)
	return c
}

// Endpoints returns the endpoints of the pages, without the name of the listener.
func (c *Console) Endpoints() []httpserve.Endpoint {
	get := []string{http.MethodGet, http.MethodHead}
	return []httpserve.Endpoint{
		{Path: "/{$}", Methods: get, Handler: c.page("overview", c.overview),
			Does: "page: the [console](../debug/console.md); `namespace=` and `q=` choose problems"},
		{Path: "/fleet", Methods: get, Handler: c.page("fleet", c.fleetPage),
			Does: "page: the clients; `state=`, `zone=`, `version=` and `q=` choose"},
		{Path: "/assets/{file}", Methods: get, Handler: http.HandlerFunc(serveAsset), Does: "style and script of the pages"},
	}
}

//go:embed assets
var assets embed.FS

// policy allows only content from this server, and nothing inline. Forms may only be sent to it, and no other page may frame
// these pages.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'"

func serveAsset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	body, err := assets.ReadFile("assets/" + path.Base(name))
	if ext := path.Ext(name); err != nil || ext != ".css" && ext != ".js" && ext != ".svg" {
		http.NotFound(w, r)
		return
	}
	httpserve.SecurePage(w.Header(), policy)
	w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	w.Header().Set("Cache-Control", "no-cache") // another version of the program has other files
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(body))
}

// templates are the pages by name, each with the layout.
var templates = parse("overview", "fleet", "failed")

func parse(names ...string) map[string]*template.Template {
	functions := template.FuncMap{
		"thousands": shadowdiff.Grouped, "bytes": bytesText, "plural": plural, "object": linkTo, "countsOf": countsOf, "stateOf": stateOf,
		"severity": func(s rules.Severity) stateView { return severities[s] },
		"text":     func(v any) string { return text(fmt.Sprint(v)) },
		"cut":      func(limit int, v any) string { return cut(fmt.Sprint(v), limit) },
		"short":    func(v any) string { digest := fmt.Sprint(v); return digest[:min(12, len(digest))] }, // enough to distinguish tables by eye
		"clock":    func(t time.Time) string { return t.UTC().Format("15:04:05") },
		"moment":   func(t time.Time) moment { return newMoment(t, time.Now()) },
		"etag":     func(t *api.Table) string { return api.Tag{Digest: t.Digest, Revision: t.Revision}.String() },
		"decided":  func(what string) string { return cmp.Or(decisionWords[what], text(what)) },
		"list":     func(v ...any) []any { return v },
		"first":    first,
		"beyond":   func(n int, list any) int { return max(reflect.ValueOf(list).Len()-n, 0) },
		"sub":      func(a, b int) int { return a - b },
	}
	all := make(map[string]*template.Template, len(names))
	for _, name := range names {
		all[name] = template.Must(template.New(name).Funcs(functions).ParseFS(assets, "assets/layout.html", "assets/"+name+".html"))
	}
	return all
}

func first(n int, list any) any {
	v := reflect.ValueOf(list)
	return v.Slice(0, min(n, v.Len())).Interface()
}

type frame struct {
	Name    string // of the template and the menu entry
	Title   string // in the tab of the browser
	Server  string
	Version string
	Relay   bool
	Fleet   bool // the server knows the fleet
	Now     string
	Every   string // milliseconds between two updates
	Live    bool
	Body    any
}

type answer struct {
	Status int
	Title  string
	Body   any
	Live   bool
}

// page returns the handler of a page. body runs with a time limit, for at most maxPages pages concurrently.
func (c *Console) page(name string, body func(context.Context, *http.Request) answer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		httpserve.SecurePage(w.Header(), policy)
		w.Header().Set("Cache-Control", "no-store")
		if !httpserve.NamedRight(r) {
			c.fail(w, http.StatusMisdirectedRequest, "Unexpected Host header",
				"The request came from this machine under the name “"+cut(r.Host, 200)+"”. Use localhost or an IP address: a page on the "+
					"internet can point its own name here.")
			return
		}
		if len(r.URL.RawQuery) > maxQueryBytes {
			c.fail(w, http.StatusRequestURITooLong, "The query is too long", "At most "+bytesText(maxQueryBytes)+" are read.")
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
		defer cancel()
		done, ok := c.turns.Wait(ctx, pageWait)
		if !ok {
			w.Header().Set("Retry-After", "5")
			c.fail(w, http.StatusServiceUnavailable, "Too many pages at a time", "Try again in a few seconds.")
			return
		}
		defer done()
		c.send(w, name, body(ctx, r))
	})
}

func (c *Console) send(w http.ResponseWriter, name string, a answer) {
	f := frame{
		Name: name, Title: a.Title, Server: text(c.cfg.Name), Version: text(c.cfg.Version), Relay: c.cfg.Relay, Fleet: c.cfg.Fleet != nil,
		Now: time.Now().UTC().Format(time.RFC3339), Every: strconv.FormatInt(c.cfg.Every.Milliseconds(), 10), Live: a.Live, Body: a.Body,
	}
	var body bytes.Buffer
	if err := templates[name].ExecuteTemplate(&body, "layout", f); err != nil {
		c.log.Error("cannot render console page", "page", name, "error", err)
		http.Error(w, "cannot render this page", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if a.Status != 0 {
		w.WriteHeader(a.Status)
	}
	_, _ = w.Write(body.Bytes()) // ignore clients that have disconnected
}

type failure struct {
	Status int
	What   string
	Why    string
}

func (c *Console) fail(w http.ResponseWriter, status int, what, why string) {
	c.send(w, "failed", answer{Status: status, Title: what, Body: failure{status, what, text(why)}})
}
