package httpserve_test

import (
	"net/http/httptest"
	"testing"

	"github.com/routesrv/routesrv/app/httpserve"
)

// TestNamedRight: only a client on this machine has to use a name that cannot be redirected.
func TestNamedRight(t *testing.T) {
	for _, tt := range []struct {
		peer, host string
		want       bool
	}{
		{"127.0.0.1:4711", "localhost:9911", true},
		{"127.0.0.1:4711", "LOCALHOST", true},
		{"127.0.0.1:4711", "127.0.0.1:9911", true},
		{"[::1]:4711", "[::1]", true},
		{"[::1]:4711", "[::1]:9911", true},
		{"127.0.0.1:4711", "10.2.0.1", true},
		{"127.0.0.1:4711", "evil.example.org", false},
		{"127.0.0.1:4711", "127.0.0.1.evil.example.org:9911", false},
		{"[::1]:4711", "localhost.evil.example.org", false},
		{"127.0.0.1:4711", "", false},
		{"10.2.0.9:4711", "routesrv.ingress.svc", true},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr, r.Host = tt.peer, tt.host
		if got := httpserve.NamedRight(r); got != tt.want {
			t.Errorf("host %q from %s: %v, want %v", tt.host, tt.peer, got, tt.want)
		}
	}
}
