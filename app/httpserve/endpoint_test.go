package httpserve_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/routesrv/routesrv/app/httpserve"
)

func TestMuxAnswersItsListenerAndNothingElse(t *testing.T) {
	says := func(text string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut {
				w.WriteHeader(http.StatusTeapot)
			}
			io.WriteString(w, text)
		})
	}
	mux := httpserve.Mux(httpserve.SupportListener, []httpserve.Endpoint{
		{Listener: httpserve.SupportListener, Path: "/any", Does: "any", Handler: says("any")},
		{Listener: httpserve.SupportListener, Path: "/get", Methods: []string{"GET", "HEAD"}, Does: "get", Handler: says("get")},
		{Listener: httpserve.SupportListener, Path: "/own", Methods: []string{"GET"}, Does: "own", ChecksMethods: true, Handler: says("own")},
		{Listener: httpserve.MainListener, Path: "/other", Does: "other", Handler: says("other")},
	})
	for _, tt := range []struct {
		method, path string
		want         int
	}{
		{"GET", "/any", 200}, {"PUT", "/any", 418}, {"GET", "/any/more", 404},
		{"GET", "/get", 200}, {"HEAD", "/get", 200}, {"POST", "/get", 405}, {"PUT", "/get", 405},
		{"PUT", "/own", 418},
		{"GET", "/other", 404}, {"GET", "/", 404},
	} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(tt.method, tt.path, nil))
		if w.Code != tt.want {
			t.Errorf("%s %s: %d, want %d", tt.method, tt.path, w.Code, tt.want)
		}
	}
}

func TestEndpointWithoutSentenceIsNoEndpoint(t *testing.T) {
	for _, does := range []string{"", "gives the status."} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q is taken for a description", does)
				}
			}()
			httpserve.Mux(httpserve.MainListener, []httpserve.Endpoint{
				{Listener: httpserve.MainListener, Path: "/a", Does: does, Handler: http.NotFoundHandler()},
			})
		}()
	}
}
