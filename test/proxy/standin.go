package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/routesrv/routesrv/catalogue"
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/match"
)

// died is the status of a stand-in that its table has ended.
const died = 3

// lastMoments is how long a stand-in that reads a file lives with a table of which it dies: it applies that right after its start.
const lastMoments = 50 * time.Millisecond

// stand is the state of a stand-in.
type stand struct {
	faults  Faults
	started time.Time
	grown   []byte

	poll time.Duration
	url  string // of the table; empty if it reads a file
	path string
	etag string // of the last answer, even if its body broke off

	hung atomic.Bool

	requests, noRoute, failed, refusedConns atomic.Uint64 // failed: answered with 5xx by a backend

	mu      sync.Mutex // guards the fields below
	text    []byte     // as downloaded or read last
	applied []byte     // the text that was applied last
	loaded  bool
	table   *match.Table
	routes  []*eskip.Route // in use, sorted by id
	refused []match.Refusal
	ever    map[string]bool // the series skipper_route_invalid, which are never removed
	updates int
	began   time.Time // of the last application
}

// standIn runs a stand-in with the command line of a Skipper, and returns its exit status.
func standIn(args []string, faults Faults) int {
	log.SetFlags(log.LstdFlags | log.Lmicroseconds)
	flags := flag.NewFlagSet("skipper", flag.ContinueOnError)
	address := flags.String("address", ":9090", "")
	support := flags.String("support-listener", ":9911", "")
	flags.String("metrics-flavour", "codahale", "")
	wait := flags.Bool("wait-first-route-load", false, "")
	flags.Bool("normalize-host", false, "")
	millis := flags.Int("source-poll-timeout", 3000, "")
	urls := flags.String("routes-urls", "", "")
	file := flags.String("routes-file", "", "")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	s := &stand{faults: faults, started: time.Now(), poll: time.Duration(*millis) * time.Millisecond, url: *urls, path: *file, ever: make(map[string]bool)}
	var err error
	if s.text, err = s.load(); err != nil && s.url != "" { // a Skipper does not start without a download, and applies it after it has asked again
		log.Printf("error while loading routes from url %s: %v", s.url, err)
		return failedStart
	}
	end := make(chan error, 1)
	if err := serve(*support, http.HandlerFunc(s.serveSupport), end); err != nil {
		log.Print(err)
		return failedStart
	}
	if !*wait {
		if err := serve(*address, http.HandlerFunc(s.serveTraffic), end); err != nil {
			log.Print(err)
			return failedStart
		}
	}
	for opened := !*wait; ; time.Sleep(s.poll) {
		s.mu.Lock()
		loaded := s.loaded
		s.mu.Unlock()
		if loaded && !opened {
			opened = true
			log.Printf("Listen on %s", *address)
			if err := serve(*address, http.HandlerFunc(s.serveTraffic), end); err != nil {
				log.Print(err)
				return failedStart
			}
		}
		select {
		case err := <-end:
			log.Print(err)
			return failedStart
		default:
		}
		if s.hung.Load() && s.url == "" {
			continue
		}
		text, err := s.load()
		if err != nil {
			log.Printf("error while receiving update;%v", err)
			continue
		}
		s.apply(text)
	}
}

func serve(address string, h http.Handler, end chan<- error) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	go func() { end <- http.Serve(l, h) }() // the process ends with it
	return nil
}

// load returns the text of the table: downloaded, or as before if the server says so.
func (s *stand) load() ([]byte, error) {
	if s.url == "" {
		return os.ReadFile(s.path)
	}
	ctx, cancel := context.WithTimeout(context.Background(), max(s.poll, 3*time.Second)) // a test polls faster than a Skipper can wait
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return nil, err
	}
	request.Close = true // a Skipper's connections rarely outlive a poll
	if s.etag != "" {
		request.Header.Set("If-None-Match", s.etag)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	switch {
	case answer.StatusCode == http.StatusNotModified && s.etag != "":
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.text, nil
	case answer.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("failed to download remote file %s, status code: %d", s.url, answer.StatusCode)
	}
	s.etag = answer.Header.Get("Etag")
	return io.ReadAll(answer.Body)
}

// apply applies a table, unless it is the same or cannot be parsed.
func (s *stand) apply(text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.text = text; text == nil || s.loaded && bytes.Equal(text, s.applied) || s.hung.Load() {
		return
	}
	all, err := eskip.Parse(string(text))
	if err != nil {
		log.Printf("error while receiving initial data;parse failed %v", err)
		return
	}
	s.updates++
	log.Printf("route settings received, id: %d", s.updates)
	began := time.Now()
	var use []*eskip.Route
	s.refused = nil
	for _, r := range all {
		if has(r, s.faults.Refuse) {
			s.refused = append(s.refused, match.Refusal{Route: r, Reason: catalogue.InvalidFilterParams, Text: "the stand-in does not know this"})
		} else {
			use = append(use, r)
		}
	}
	if has := func(faults []string) bool { return anyHas(use, faults) }; has(s.faults.Hang) {
		s.hung.Store(true)
		return
	} else if has(s.faults.Grow) && s.grown == nil {
		s.grown = bytes.Repeat([]byte{1}, 400<<20)
	} else if has(s.faults.Busy) {
		go func() {
			for {
				runtime.Gosched()
			}
		}()
	}
	table, more := match.New(use, match.Options{NormalizeHost: true, ExtraFilters: s.extra()})
	for _, refusal := range more {
		s.refused = append(s.refused, refusal)
		use = slices.DeleteFunc(use, func(r *eskip.Route) bool { return r == refusal.Route })
	}
	for _, refusal := range s.refused {
		s.ever[fmt.Sprintf("{reason=%q,route_id=%q}", refusal.Reason, refusal.Route.Id)] = true
		log.Printf("failed to process route %s: %s: %s", refusal.Route.Id, refusal.Reason, refusal.Text)
	}
	slices.SortFunc(use, func(a, b *eskip.Route) int { return strings.Compare(a.Id, b.Id) })
	s.applied, s.table, s.routes, s.loaded, s.began = text, table, use, true, began
	log.Printf("route settings applied, id: %d", s.updates)
	if anyHas(use, s.faults.Die) {
		end := func() {
			log.Printf("panic: the table has %q", s.faults.Die)
			os.Exit(died)
		}
		if s.url != "" {
			end()
		}
		time.AfterFunc(lastMoments, end)
	}
}

// extra returns the names of filters that only the stand-in knows.
func (s *stand) extra() []string {
	var names []string
	for _, fault := range slices.Concat(s.faults.Die, s.faults.Hang, s.faults.Grow, s.faults.Busy, s.faults.DieInUse, s.faults.HangInUse) {
		if name, _, call := strings.Cut(fault, "("); call {
			names = append(names, name)
		}
	}
	return names
}

// has reports whether the text of a route has one of some faults.
func has(r *eskip.Route, faults []string) bool {
	text := r.String()
	return slices.ContainsFunc(faults, func(fault string) bool { return strings.Contains(text, fault) })
}

func anyHas(routes []*eskip.Route, faults []string) bool {
	return slices.ContainsFunc(routes, func(r *eskip.Route) bool { return has(r, faults) })
}

// serveTraffic sends a request to a backend of its route.
func (s *stand) serveTraffic(w http.ResponseWriter, r *http.Request) {
	n := s.requests.Add(1)
	s.mu.Lock()
	table := s.table
	s.mu.Unlock()
	var route *eskip.Route
	if table != nil {
		found := table.Find(match.Request{Method: r.Method, Target: r.RequestURI, Host: r.Host, Header: r.Header, RemoteAddr: r.RemoteAddr})
		if len(found.Outcomes) > 0 {
			route = found.Outcomes[0].Route
		}
	}
	switch {
	case route == nil:
		s.noRoute.Add(1)
		http.Error(w, "Not Found", http.StatusNotFound)
		return
	case has(route, s.faults.DieInUse) && strings.Contains(r.Header.Get("Accept-Encoding"), "br"):
		log.Printf("panic: the route %s was used", route.Id)
		os.Exit(died)
	case has(route, s.faults.HangInUse):
		s.hung.Store(true)
		<-r.Context().Done()
		return
	}
	status := http.StatusNotFound
	for _, f := range route.Filters {
		if f.Name == "status" && len(f.Args) == 1 {
			if n, err := strconv.Atoi(fmt.Sprint(f.Args[0])); err == nil {
				status = n
			}
		}
	}
	backend := route.Backend
	if k := len(route.LBEndpoints); k > 0 {
		backend = route.LBEndpoints[n%uint64(k)].Address
	}
	target, err := url.Parse(backend)
	if err != nil || target.Host == "" {
		w.WriteHeader(status)
		return
	}
	pass := httputil.NewSingleHostReverseProxy(target)
	pass.ModifyResponse = func(r *http.Response) error {
		if r.StatusCode >= http.StatusInternalServerError {
			s.failed.Add(1)
		}
		return nil
	}
	pass.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) {
		s.refusedConns.Add(1)
		w.WriteHeader(http.StatusBadGateway)
	}
	pass.ServeHTTP(w, r)
}

// serveSupport answers on the support listener.
func (s *stand) serveSupport(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/metrics" || strings.HasPrefix(r.URL.Path, "/metrics/"):
		s.metrics(w)
	case r.URL.Path == "/routes" || strings.HasPrefix(r.URL.Path, "/routes/"):
		s.list(w, r)
	default:
		http.NotFound(w, r)
	}
}

// metrics shows the series that our programs read.
func (s *stand) metrics(w io.Writer) {
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	s.mu.Lock()
	defer s.mu.Unlock()
	line := func(name string, value any) { fmt.Fprintf(w, "%s %v\n", name, value) }
	line("process_start_time_seconds", float64(s.started.UnixMilli())/1000)
	line("process_resident_memory_bytes", memory.Sys)
	line("process_cpu_seconds_total", cpuSeconds())
	line(fmt.Sprintf("go_info{version=%q}", runtime.Version()), 1)
	line(`skipper_custom_total{key="incoming.HTTP/1.1"}`, s.requests.Load())
	line("skipper_route_error_total", s.noRoute.Load())
	line("skipper_backend_5xx_duration_seconds_count", s.failed.Load())
	if n := s.refusedConns.Load(); n > 0 {
		line(`skipper_backend_error_total{route="any"}`, n)
	}
	if s.loaded {
		line(`skipper_custom_gauges{key="routes.total"}`, len(s.routes))
		line(`skipper_custom_gauges{key="routes.updated_timestamp"}`, s.began.Unix())
	}
	line(`skipper_custom_duration_seconds_count{key="routes.update_latency"}`, s.updates)
	for labels := range s.ever {
		line("skipper_route_invalid"+labels, 1)
	}
}

// list shows the routes in use, or the refused ones.
func (s *stand) list(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	query := r.URL.Query()
	number := func(name string, standard int) (int, error) {
		if !query.Has(name) {
			return standard, nil
		}
		n, err := strconv.Atoi(query.Get(name))
		if err == nil && n < 0 {
			err = errors.New("negative")
		}
		return n, err
	}
	offset, offsetErr := number("offset", 0)
	limit, limitErr := number("limit", 1024)
	timestamp := strconv.FormatInt(s.began.Unix(), 10)
	switch {
	case offsetErr != nil:
		http.Error(w, "invalid offset", http.StatusBadRequest)
		return
	case limitErr != nil:
		http.Error(w, "invalid limit", http.StatusBadRequest)
		return
	case query.Has("timestamp") && query.Get("timestamp") != timestamp:
		http.Error(w, "invalid timestamp", http.StatusBadRequest)
		return
	}
	type item struct {
		*eskip.Route
		words string
	}
	var all []item
	if query.Get("invalid") == "true" {
		for _, refusal := range s.refused {
			all = append(all, item{refusal.Route, string(refusal.Reason) + ": " + refusal.Text})
		}
	} else {
		for _, route := range s.routes {
			all = append(all, item{route, ""})
		}
	}
	w.Header().Set("X-Count", strconv.Itoa(len(all)))
	w.Header().Set("X-Timestamp", timestamp)
	page := all[min(offset, len(all)):min(offset+limit, len(all))]
	if !strings.Contains(r.Header.Get("Accept"), "application/json") {
		w.Header().Set("Content-Type", "text/plain")
		for _, one := range page {
			fmt.Fprintf(w, "%s: %s;\n", one.Id, one.Route.String())
		}
		return
	}
	w.Header().Set("Content-Type", "application/json")
	list := make([]map[string]any, 0, len(page))
	for _, one := range page {
		entry := map[string]any{"id": one.Id}
		if one.words != "" {
			entry["error"] = one.words
		}
		list = append(list, entry)
	}
	_ = json.NewEncoder(w).Encode(list) // the client may be gone
}
