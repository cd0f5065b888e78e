package source_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/source/cluster"
	"github.com/routesrv/routesrv/test/kubetest"
)

// script is an API server whose watches of services do what a test says, one after the other. Everything else is answered by a
// server that has what the watches claim. Watches behind the end of the script stay open without a word.
type script struct {
	*kubetest.Server
	mu    sync.Mutex
	steps []step
	asked []watchAsked
	list  step      // of services, if set
	ahead bool      // the server has what the streams show at 101
	ended time.Time // when a watch last did
}

// step answers one request. The stream ends when it returns.
type step func(s *script, w http.ResponseWriter, r *http.Request)

// watchAsked is a request for services: "from N" for a watch, "list", or "current" for one object.
type watchAsked struct {
	what  string
	after time.Duration // the end of the watch before
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != pathServices {
		s.Server.ServeHTTP(w, r)
		return
	}
	q, what := r.URL.Query(), "list"
	switch {
	case q.Get("limit") != "":
		what = "current"
	case q.Get("watch") != "":
		what = "from " + q.Get("resourceVersion")
	}
	var do step
	s.mu.Lock()
	after := time.Duration(0) // if the client has left the one before, and the server does not know yet
	if !s.ended.IsZero() {
		after = time.Since(s.ended)
	}
	s.asked = append(s.asked, watchAsked{what, after})
	switch {
	case what == "list" && s.list != nil:
		do = s.list
	case what == "list", what == "current":
		do = func(s *script, w http.ResponseWriter, r *http.Request) { s.Server.ServeHTTP(w, r) }
	case len(s.steps) > 0:
		do, s.steps = s.steps[0], s.steps[1:]
	default:
		do = stream()
	}
	s.mu.Unlock()
	if what != "list" && what != "current" {
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.ended = time.Now()
		}()
	}
	do(s, w, r)
}

// catchUp makes the server have what a stream is about to show.
func (s *script) catchUp(text string) {
	switch {
	case !strings.Contains(text, `"101"`):
	case strings.Contains(text, `"new"`) && s.behind():
		if err := s.Apply(strings.ReplaceAll(newObject, "NAME", "new")); err != nil {
			panic(err)
		}
	case s.behind():
		s.SetRevision(101)
	}
}

// behind reports whether this is the first time.
func (s *script) behind() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.ahead
	s.ahead = true
	return !before
}

// newObject is what events are about, but for the name.
const newObject = `
kind: Service
metadata: {name: NAME, namespace: n1}
spec: {type: ClusterIP, ports: [{name: http, port: 80, targetPort: 8080}, {name: x, port: 81, targetPort: web}]}
`

// watches are the watches so far, and how long after the one before each of them came.
func (s *script) watches() (what []string, after []time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.asked {
		if a.what != "current" && a.what != "list" {
			what, after = append(what, a.what), append(after, a.after)
		}
	}
	return what, after
}

// The parts of a stream. A string is sent as it is, a duration is a pause; the stream stays open behind the last part, unless that
// is ends or breaks.
type parting string

const (
	ends   parting = "ends"   // as agreed
	breaks parting = "breaks" // in the middle
)

func stream(parts ...any) step {
	return func(s *script, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		for _, p := range parts {
			switch p := p.(type) {
			case string:
				s.catchUp(p)
				_, _ = io.WriteString(w, p)
			case time.Duration:
				select {
				case <-time.After(p):
				case <-r.Context().Done():
				}
			case parting:
				if p == breaks {
					panic(http.ErrAbortHandler)
				}
				return
			}
		}
		<-r.Context().Done()
	}
}

// status answers with a failure.
func status(code int, header ...string) step {
	return func(_ *script, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"scripted","code":%d}`, code)
	}
}

// page answers with HTML.
func page(contentType string) step {
	return func(_ *script, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, "<html><body>Sign in</body></html>")
	}
}

// service is an event about the service with the name.
func service(event, name string, revision int) string {
	return fmt.Sprintf(`{"type":%q,"object":{"kind":"Service","apiVersion":"v1","metadata":{"namespace":"n1","name":%q,"resourceVersion":"%d"},`+
		`"spec":{"type":"ClusterIP","ports":[{"name":"http","port":80,"targetPort":8080},{"name":"x","port":81,"targetPort":"web"}]}}}`+"\n", event, name, revision)
}

func bookmark(revision int) string {
	return fmt.Sprintf(`{"type":"BOOKMARK","object":{"kind":"Service","apiVersion":"v1","metadata":{"resourceVersion":"%d"}}}`+"\n", revision)
}

func failed(code int, reason string, more string) string {
	return fmt.Sprintf(`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","message":"scripted","reason":%q,"code":%d%s}}`+"\n",
		reason, code, more)
}

// play runs a Watcher of the script in a bubble.
func play(t *testing.T, cfg cluster.Config, steps []step, f func(t *testing.T, s *script, w *cluster.Watcher, log func() string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &script{Server: newServer(t), steps: steps}
		log, text := logger()
		cfg.REST = &rest.Config{Host: "http://fake", Transport: localTransport(s)}
		cfg.Logger = log
		w, err := cluster.NewWatcher(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := w.Run(ctx); err != nil {
				t.Errorf("Run ends with %v", err)
			}
		}()
		f(t, s, w, func() string { synctest.Wait(); return text.String() })
		begin := time.Now()
		cancel()
		<-done
		if d := time.Since(begin); d > 0 {
			t.Errorf("Run took %v to end", d)
		}
	})
}

// names are the services of a snapshot.
func names(s *kube.Snapshot) (out []string) {
	for _, o := range s.Services {
		out = append(out, o.Name)
	}
	return out
}
