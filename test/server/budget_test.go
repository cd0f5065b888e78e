package server_test

import (
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/app/server"
)

// pods is the slice of a service with some pods.
func pods(name string, addresses ...string) string {
	return strings.Replace(pod(name, "X"), "[{addresses: [X]}]", "[{addresses: ["+strings.Join(addresses, "]}, {addresses: [")+"]}]", 1)
}

// TestAddedEndpointsWaitForTheBudget: a new pod is served together with the next pod that is removed, and not before.
func TestAddedEndpointsWaitForTheBudget(t *testing.T) {
	f := startReading(t, backend("s", "10.2.0.1")+ingresses("shop0"), true, func(c *server.Config) { c.EndpointDebounce = time.Hour })
	before := f.get("/routes")
	f.apply(pods("s", "10.2.0.1", "10.2.0.2"))
	f.eventually("a table that waits", func() bool { return strings.Contains(f.metrics(), "routesrv_endpoint_debounce_waiting 1") })
	if now := f.get("/routes"); now.body != before.body || now.header.Get("X-Table-State") != "" {
		t.Errorf("state %q, served is\n%s", now.header.Get("X-Table-State"), now.body)
	}
	f.apply(pods("s", "10.2.0.2", "10.2.0.3"))
	f.replaced("10.2.0.1:", "10.2.0.3:")
	if body := f.metrics(); !strings.Contains(body, "routesrv_endpoint_debounce_waiting 0") {
		t.Error("a table still waits")
	}
}
