package sidecar_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/internal/httpserve"
	"github.com/routesrv/routesrv/internal/sidecar"
	"github.com/routesrv/routesrv/rollout"
)

func TestListenersAnswerWhatIsListedAndNothingElse(t *testing.T) {
	cfg := sidecar.Config{Pod: "p"}
	var err error
	if cfg.Setting, err = rollout.ParseSetting("Exec"); err != nil {
		t.Fatal(err)
	}
	cfg.Fetch.URLs = []string{routeServer(t).URL}
	cfg.Fetch.Interval = 10 * time.Millisecond
	s, err := sidecar.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	defer func() { <-done }()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { defer close(done); s.RunTables(ctx) }()
	handlers := map[string]http.Handler{httpserve.MainListener: s.Handler(), httpserve.SupportListener: s.SupportHandler()}
	if got := ask(handlers[httpserve.MainListener], "GET", "/routes").Code; got != http.StatusOK { // waits for the boot
		t.Fatalf("/routes: %d", got)
	}
	asked := func(path string) string { return strings.Replace(path, "{zone}", "eu-central-1a", 1) }
	all := s.Endpoints()
	for _, e := range all {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
			got := ask(handlers[e.Listener], method, asked(e.Path)).Code
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
