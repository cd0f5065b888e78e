package pages_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/console"
	"github.com/routesrv/routesrv/table"
)

var digest = strings.Repeat("ab", 32)

func holding() *world {
	w := newWorld()
	w.state.Guard = api.Guard{Held: true, Reason: "routes_lost", Detail: "from 10 to 2", Digest: table.Digest(bytes.Repeat([]byte{0xab}, 32)), Routes: 2, Since: time.Now()}
	return w
}

// TestPageOfAHoldShowsTheCommandAndAcceptsNothing: whoever asks.
func TestPageOfAHoldShowsTheCommandAndAcceptsNothing(t *testing.T) {
	cfg := holding().config()
	_, body, _ := answer(handler(cfg), loopback("GET", "/", nil))
	if !strings.Contains(body, "routesrv accept "+digest+" --why REASON") || strings.Contains(body, "<form id=\"accept\"") {
		t.Errorf("the page of a hold:\n%s", body)
	}
	for _, e := range console.New(cfg).Endpoints() {
		if diff := cmp.Diff([]string{http.MethodGet, http.MethodHead}, e.Methods); diff != "" {
			t.Errorf("methods of %s (-want +got):\n%s", e.Path, diff)
		}
	}
}

// TestPagesAreNotForRebindingNames: a page on the internet whose name was made to resolve to this machine can read nothing.
func TestPagesAreNotForRebindingNames(t *testing.T) {
	h := handler(holding().config())
	for host, want := range map[string]int{
		"localhost:9911": 200, "127.0.0.1:9911": 200, "[::1]:9911": 200, "LOCALHOST": 200, "10.2.0.7:9911": 200,
		"evil.example:9911": 421, "evil.example": 421, "localhost.evil.example:9911": 421, "127.0.0.1.evil.example": 421, "": 421,
	} {
		for _, target := range []string{"/", "/fleet"} {
			r := loopback("GET", target, nil)
			r.Host = host
			status, body, _ := answer(h, r)
			if status != want || want != 200 && strings.Contains(body, "routes_lost") {
				t.Errorf("GET %s under %q: %d, want %d", target, host, status, want)
			}
		}
	}
}
