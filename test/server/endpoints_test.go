package server_test

import (
	"io"
	"net/http"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/httpserve"
	"github.com/routesrv/routesrv/app/server"
)

// everything enables all optional endpoints.
func everything(cfg *server.Config) {
	shards(cfg)
	cfg.EnableProfile = true
	cfg.MaxStreams = 10
}

// asked returns a path that an endpoint answers, with a query that makes the answer short.
func asked(path string) string {
	path = strings.NewReplacer("{zone}", "eu-central-1a", "{file}", "console.css", "{$}", "").Replace(path)
	if path == "/debug/pprof/trace" {
		path += "?seconds=0.01"
	}
	return path
}

// listedEndpoints returns the endpoints of a server with the configuration.
func listedEndpoints(t *testing.T, change func(*server.Config)) []httpserve.Endpoint {
	t.Helper()
	cfg := (&fixture{}).config(t, "")
	if change != nil {
		change(&cfg)
	}
	s, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s.Endpoints()
}

func TestEveryListedEndpointAnswersAndTakesTheListedMethodsOnly(t *testing.T) {
	f := start(t, service+ingress("a"), everything)
	f.ready()
	// While a CPU profile is taken, another one is refused at once; else each would take a second.
	if err := pprof.StartCPUProfile(io.Discard); err != nil {
		t.Fatal(err)
	}
	defer pprof.StopCPUProfile()
	for _, e := range listedEndpoints(t, everything) {
		address := f.main
		if e.Listener == httpserve.SupportListener {
			address = f.support
		}
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
			if e.Listener == httpserve.ControlListener {
				if got := f.control(method, asked(e.Path)).status; (method == http.MethodPost) != (got == http.StatusBadRequest) {
					t.Errorf("%s %s over the control socket: %d", method, e.Path, got)
				}
				continue
			}
			got := f.request(method, address, asked(e.Path)).status
			if got == http.StatusNotFound && e.Path != "/guard/held" && e.Path != "/client" { // where nothing is held, and without an id
				t.Errorf("%s %s on the %s listener: 404, and it is listed", method, e.Path, e.Listener)
			}
			if taken := e.Methods == nil || slices.Contains(e.Methods, method); taken != (got != http.StatusMethodNotAllowed) {
				t.Errorf("%s %s on the %s listener: %d, listed are %v", method, e.Path, e.Listener, got, e.Methods)
			}
		}
	}
}

func TestNothingAnswersThatIsNotListed(t *testing.T) {
	all := listedEndpoints(t, everything)
	for name, change := range map[string]func(*server.Config){"everything on": everything, "defaults": nil} {
		t.Run(name, func(t *testing.T) {
			f := start(t, service+ingress("a"), change)
			f.ready()
			listed := listedEndpoints(t, change)
			for _, e := range all {
				for listener, address := range map[string]string{httpserve.MainListener: f.main, httpserve.SupportListener: f.support} {
					for _, path := range []string{asked(e.Path), "/", "/x" + e.Path, strings.TrimSuffix(e.Path, "/") + "x/y"} {
						bare, _, _ := strings.Cut(path, "?")
						if here(listed, listener, bare) || listener == httpserve.MainListener && strings.TrimPrefix(bare, api.PathCanary) == "/routes/watch" {
							continue // without streams that is a zone
						}
						if got := f.request("GET", address, path); got.status != http.StatusNotFound {
							t.Errorf("GET %s on the %s listener: %d, want 404: it is not listed", path, listener, got.status)
						}
					}
				}
			}
		})
	}
}

// here reports whether a path is that of a listed endpoint.
func here(listed []httpserve.Endpoint, listener, path string) bool {
	return slices.ContainsFunc(listed, func(e httpserve.Endpoint) bool {
		want, _, _ := strings.Cut(asked(e.Path), "?")
		return e.Listener == listener && (path == want || want != "/" && strings.HasSuffix(want, "/") && strings.HasPrefix(path, want))
	})
}

func TestConditionIsGivenForWhatIsNotAlwaysThere(t *testing.T) {
	always := listedEndpoints(t, nil)
	for _, e := range listedEndpoints(t, everything) {
		if is := here(always, e.Listener, strings.Split(asked(e.Path), "?")[0]); is != (e.Condition == "") {
			t.Errorf("%s: condition %q, there by default: %v", e.Path, e.Condition, is)
		}
	}
}
