package server

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

type nothing struct{}

func (nothing) Read(context.Context, kube.ReadOptions) (*kube.Snapshot, error) {
	return nil, errors.New("no source")
}

// TestChartsKeepHowLongTheFleetTook: whether or not a page is open meanwhile.
func TestChartsKeepHowLongTheFleetTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Config{Source: nothing{}, SupportAddress: "localhost:0"})
		if err != nil {
			t.Fatal(err)
		}
		var tag string
		for i, text := range []string{`a: * -> <shunt>;`, `b: * -> <shunt>;`} {
			routes, err := table.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			next, err := table.New(routes, uint64(i+1), time.Now())
			if err != nil {
				t.Fatal(err)
			}
			s.cache.Publish(next)
			time.Sleep(time.Second)
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodGet, "/routes", nil)
			if tag != "" {
				r.Header.Set("If-None-Match", tag)
			}
			s.cache.Handler().ServeHTTP(w, r)
			tag = w.Header().Get("Etag")
		}
		r := httptest.NewRequest(http.MethodGet, "/routes", nil) // now the client reports that it has the second one
		r.Header.Set("If-None-Match", tag)
		s.cache.Handler().ServeHTTP(httptest.NewRecorder(), r)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { s.clients.Run(ctx) })
		running.Go(func() { s.rememberReached(ctx) })
		time.Sleep(2*reachedEvery + time.Second)
		cancel()
		running.Wait()
		all := s.publishes.Since(time.Now().Add(-time.Hour))
		if len(all) != 2 || all[1].All < time.Second || all[1].All > 2*time.Second {
			t.Errorf("publishes %+v, want that the fleet held the second one after a second", all)
		}
	})
}
