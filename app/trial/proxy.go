package trial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Limits of what is read from the proxy.
const (
	maxAnswer     = 32 << 20
	maxWords      = 500             // bytes of an error of the proxy
	askTimeout    = 2 * time.Second // for one query of its support listener
	askEvery      = 50 * time.Millisecond
	requestsOfUse = 2 // through each text: some fail at the second one
)

// proxy is the trial proxy, as it shows itself.
type proxy struct {
	support *url.URL // its support listener
	traffic *url.URL // where it takes requests; nil means that texts are loaded and not used
	client  *http.Client
}

type sign struct {
	start  float64 // of the process, in seconds since 1970
	memory float64 // in bytes; 0 if unknown
	cpu    float64 // in seconds; 0 if unknown
	build  string  // what names its version
	at     time.Time
}

// get queries the support listener and passes the answer to read.
func (p *proxy) get(ctx context.Context, path, accept string, timeout time.Duration, read func(io.Reader) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	target := p.support.JoinPath()
	target.Path, target.RawQuery, _ = strings.Cut(path, "?")
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", accept)
	answer, err := p.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", target, answer.Status)
	}
	return read(io.LimitReader(answer.Body, maxAnswer))
}

// look queries the metrics of the process.
func (p *proxy) look(ctx context.Context) (sign, error) {
	var families map[string]*dto.MetricFamily
	if err := p.get(ctx, "/metrics", "text/plain", askTimeout, func(r io.Reader) (err error) {
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err = parser.TextToMetricFamilies(r)
		return err
	}); err != nil {
		return sign{}, fmt.Errorf("metrics of the trial proxy: %w", err)
	}
	s := sign{at: time.Now()}
	for name, to := range map[string]*float64{
		"process_start_time_seconds": &s.start, "process_resident_memory_bytes": &s.memory, "process_cpu_seconds_total": &s.cpu,
	} {
		if f := families[name]; f != nil && len(f.Metric) > 0 {
			*to = valueOf(f.Metric[0])
		}
	}
	if s.start == 0 {
		return sign{}, errors.New("metrics of the trial proxy: no process_start_time_seconds: start it with -metrics-flavour=prometheus")
	}
	for _, name := range []string{"go_info", "skipper_build_info"} {
		if f := families[name]; f != nil && len(f.Metric) > 0 {
			for _, l := range f.Metric[0].Label {
				s.build += l.GetName() + "=" + l.GetValue() + " "
			}
		}
	}
	s.build = strings.TrimSpace(s.build)
	return s, nil
}

func valueOf(m *dto.Metric) float64 {
	return m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetUntyped().GetValue()
}

// has reports whether the proxy applied the table with a marker.
func (p *proxy) has(ctx context.Context, marker string) bool {
	var text []byte
	err := p.get(ctx, "/routes?limit=1&nopretty", "text/plain", askTimeout, func(r io.Reader) (err error) {
		text, err = io.ReadAll(io.LimitReader(r, 1<<20))
		return err
	})
	return err == nil && strings.HasPrefix(string(text), marker+":")
}

// refused returns the errors of the proxy about routes that it does not use, by id. The table has a marker and n other routes.
func (p *proxy) refused(ctx context.Context, marker string, n int) (map[string]string, error) {
	var routes []struct {
		ID    string `json:"id"`
		Error string `json:"error"`
	}
	path := fmt.Sprintf("/routes?invalid=true&limit=%d", maxBatch+1)
	if err := p.get(ctx, path, "application/json", 5*askTimeout, func(r io.Reader) error { return json.NewDecoder(r).Decode(&routes) }); err != nil {
		return nil, fmt.Errorf("refused routes of the trial proxy: %w", err)
	}
	words := map[string]string{}
	for _, r := range routes {
		words[r.ID] = r.Error[:min(len(r.Error), maxWords)]
	}
	if _, valid := words[marker]; !valid {
		return words, nil
	}
	missing := map[string]string{} // an old proxy ignores the parameter, and lists what it uses
	for i := range n {
		if _, has := words[idOf(i)]; !has {
			missing[idOf(i)] = "it does not list the route: see its log"
		}
	}
	return missing, nil
}

// use sends requests through the route with a host. Any answer is fine.
func (p *proxy) use(ctx context.Context, host string, timeout time.Duration) error {
	for range requestsOfUse {
		if err := p.send(ctx, host, timeout); err != nil {
			return fmt.Errorf("it does not answer a request: %w", err)
		}
	}
	return nil
}

func (p *proxy) send(ctx context.Context, host string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.traffic.JoinPath("/").String(), nil)
	if err != nil {
		return err
	}
	request.Host = host
	// Like a browser: some filters fail only for a client that accepts their output.
	request.Header.Set("Accept-Encoding", "br, gzip, zstd, deflate")
	request.Header.Set("User-Agent", "routesrv-trial")
	answer, err := p.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(answer.Body, maxAnswer))
	return err
}

// document is the table of the trial proxy: a marker, and one route for each tried call, with unused hosts and without backends.
type document struct {
	mu      sync.Mutex
	run     string // identifies the process: a proxy may still have the table of an earlier one
	serial  int    // of the marker
	text    string
	fetched func() // closes the channel of set once a proxy has the text
	local   bool   // set by New: the proxy uses loopback, so requests from other addresses do not count
}

func loopback(address string) bool {
	a, err := netip.ParseAddrPort(address)
	return err == nil && a.Addr().Unmap().IsLoopback()
}

// markerPrefix begins the id of the marker. It sorts first, so that a list of one route shows it.
const markerPrefix = "A_marker_"

const markerHost = "marker.trial.invalid"

// set replaces the calls of the document. It returns the id of the new marker, and a channel that is closed once a proxy has
// fetched it.
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
	done := make(chan struct{})
	d.text, d.fetched = b.String(), sync.OnceFunc(func() { close(done) })
	return marker, done
}

func routeOf(i int, c Call) string {
	predicates, filters := fmt.Sprintf("Host(%q)", exactly(hostOf(i))), ""
	if c.Predicate {
		predicates += " && " + c.Text
	} else {
		filters = " -> " + c.Text
	}
	return fmt.Sprintf("%s: %s%s -> <shunt>;", idOf(i), predicates, filters)
}

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
	if _, err := w.Write([]byte(text)); err == nil && r.Method == http.MethodGet && (!d.local || loopback(r.RemoteAddr)) {
		fetched()
	}
}
