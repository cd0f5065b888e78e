package trial

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// document is the table of the trial proxy: a marker, and one route for each call that is tried. No client ever asks for its hosts, and no
// route has a backend.
type document struct {
	mu      sync.Mutex
	run     string // names the process: a proxy may still have a table of an earlier one
	serial  int    // of the marker
	text    string
	fetched chan struct{} // closed when a proxy has the text; another one for each text
}

// markerPrefix begins the id of the marker. It sorts before all other ids, so that a list of one route shows it.
const markerPrefix = "A_marker_"

// markerHost is the host of the marker.
const markerHost = "marker.trial.invalid"

// set makes the document have the calls, and returns the id of its marker, and a channel that is closed when a proxy has fetched it.
func (d *document) set(calls []Call) (marker string, fetched <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.serial++
	if d.run == "" {
		d.run = strconv.FormatInt(time.Now().UnixNano(), 36)
	}
	marker = markerPrefix + d.run + "_" + strconv.Itoa(d.serial)
	var b strings.Builder
	fmt.Fprintf(&b, "%s: Host(%q) -> <shunt>;", marker, exactly(markerHost))
	for i, c := range calls {
		b.WriteByte('\n')
		b.WriteString(routeOf(i, c))
	}
	d.text, d.fetched = b.String(), make(chan struct{})
	return marker, d.fetched
}

// routeOf returns the route of a call.
func routeOf(i int, c Call) string {
	predicates, filters := fmt.Sprintf("Host(%q)", exactly(hostOf(i))), ""
	if c.Predicate {
		predicates += " && " + c.Text
	} else {
		filters = " -> " + c.Text
	}
	return fmt.Sprintf("%s: %s%s -> <shunt>;", idOf(i), predicates, filters)
}

// exactly returns the expression that matches a host.
func exactly(host string) string { return "^" + strings.ReplaceAll(host, ".", "[.]") + "$" }

func idOf(i int) string   { return "t" + strconv.Itoa(i) }
func hostOf(i int) string { return idOf(i) + ".trial.invalid" }

// ServeHTTP serves the document to the trial proxy, as a route server does: with an ETag.
func (d *document) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	d.mu.Lock()
	text, fetched, etag := d.text, d.fetched, fmt.Sprintf(`"trial-%s-%d"`, d.run, d.serial)
	d.mu.Unlock()
	w.Header().Set("ETag", etag)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if r.Header.Get("If-None-Match") == etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if _, err := w.Write([]byte(text)); err == nil && fetched != nil && r.Method == http.MethodGet {
		d.mu.Lock()
		if d.fetched == fetched {
			select {
			case <-fetched:
			default:
				close(fetched)
			}
		}
		d.mu.Unlock()
	}
}
