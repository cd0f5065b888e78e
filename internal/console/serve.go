package console

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"mime"
	"net/http"
	"path"
	"reflect"
	"strconv"
	"time"

	"github.com/routesrv/routesrv/internal/api"
	"github.com/routesrv/routesrv/internal/httpserve"
)

//go:embed assets
var assets embed.FS

// policy allows only content from this server, and nothing inline. Forms may only be sent to it, and no other page may frame
// these pages.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'"

// serveAsset serves the style and the script.
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
var templates = parse("overview", "fleet", "client", "object", "request", "failed")

func parse(names ...string) map[string]*template.Template {
	functions := template.FuncMap{
		"thousands": thousands, "bytes": bytesText, "plural": plural, "seconds": secondsText, "object": linkTo, "countsOf": countsOf, "stateOf": stateOf,
		"text":    func(v any) string { return text(fmt.Sprint(v)) },
		"cut":     func(limit int, v any) string { return cut(fmt.Sprint(v), limit) },
		"short":   func(v any) string { return shortDigest(fmt.Sprint(v)) },
		"clock":   func(t time.Time) string { return t.UTC().Format("15:04:05") },
		"moment":  func(t time.Time) moment { return newMoment(t, time.Now()) },
		"etag":    func(t *api.Table) string { return api.Tag{Digest: t.Digest, Revision: t.Revision}.String() },
		"decided": func(what string) string { return cmp.Or(decisionWords[what], text(what)) },
		"list":    func(v ...any) []any { return v },
		"first":   first,
		"beyond":  func(n int, list any) int { return max(reflect.ValueOf(list).Len()-n, 0) },
		"sub":     func(a, b int) int { return a - b },
	}
	all := make(map[string]*template.Template, len(names))
	for _, name := range names {
		all[name] = template.Must(template.New(name).Funcs(functions).ParseFS(assets, "assets/layout.html", "assets/"+name+".html"))
	}
	return all
}

// first returns the first n elements of a list.
func first(n int, list any) any {
	v := reflect.ValueOf(list)
	return v.Slice(0, min(n, v.Len())).Interface()
}

// frame holds what every page shows.
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

// answer is the content of a page. A zero Status means 200.
type answer struct {
	Status int
	Title  string
	Body   any
	Live   bool
}

// page returns the handler of a page. body runs with a time limit, for at most maxPages pages concurrently.
func (c *Console) page(name string, body func(context.Context, *http.Request) (answer, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		httpserve.SecurePage(w.Header(), policy)
		w.Header().Set("Cache-Control", "no-store")
		if !httpserve.NamedRight(r) {
			c.fail(w, http.StatusMisdirectedRequest, "This address is for the operator of this machine only",
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
		a, err := body(ctx, r)
		switch {
		case r.Context().Err() != nil: // the client is gone
		case errors.Is(err, ErrBusy):
			w.Header().Set("Retry-After", "5")
			c.fail(w, http.StatusServiceUnavailable, "Too many questions at a time", "Try again in a few seconds.")
		case err != nil:
			c.fail(w, http.StatusInternalServerError, "cannot render this page", err.Error())
		default:
			c.send(w, name, a)
		}
	})
}

// send renders and writes a page.
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
	_, _ = w.Write(body.Bytes()) // ignore clients that are gone
}

// failure is a page that reports an error.
type failure struct {
	Status int
	What   string
	Why    string
}

func (c *Console) fail(w http.ResponseWriter, status int, what, why string) {
	c.send(w, "failed", answer{Status: status, Title: what, Body: failure{status, what, text(why)}})
}
