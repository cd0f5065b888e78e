package sidecar_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/app/httpserve"
	"github.com/routesrv/routesrv/app/sidecar"
)

func TestListenersAnswerWhatIsListedAndNothingElse(t *testing.T) {
	s, stop := fetching(t, sidecar.Config{Pod: "p"}, routeServer(t).URL)
	defer stop()
	handlers := map[string]http.Handler{httpserve.MainListener: s.Handler(), httpserve.SupportListener: operator(s.SupportHandler())}
	asked := func(path string) string { return strings.Replace(path, "{zone}", "eu-central-1a", 1) }
	all := s.Endpoints()
	for _, e := range all {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
			h := handlers[e.Listener]
			if e.Listener == httpserve.ControlListener {
				if h = operator(s.ControlHandler()); !slices.Contains(e.Methods, method) {
					continue // as on the support listener
				}
			}
			got := ask(h, method, asked(e.Path)).Code
			if got == http.StatusNotFound && e.Path != "/guard/held" { // where nothing is held
				t.Errorf("%s %s on the %s listener: 404, and it is listed", method, e.Path, e.Listener)
			}
			if taken := e.Methods == nil || slices.Contains(e.Methods, method); taken != (got != http.StatusMethodNotAllowed) {
				t.Errorf("%s %s on the %s listener: %d, listed are %v", method, e.Path, e.Listener, got, e.Methods)
			}
		}
		for listener, h := range handlers {
			for _, path := range []string{asked(e.Path), "/", "/x" + asked(e.Path), asked(e.Path) + "/x/y", "/debug/pprof/"} {
				listed := slices.ContainsFunc(all, func(e httpserve.Endpoint) bool {
					return e.Listener == listener && asked(e.Path) == path
				})
				if got := ask(h, "GET", path).Code; !listed && got != http.StatusNotFound {
					t.Errorf("GET %s on the %s listener: %d, want 404: it is not listed", path, listener, got)
				}
			}
		}
	}
}
