package loopback_test

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/routesrv/routesrv/test/loopback"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func get(t *testing.T, n *loopback.Network, url string) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return (&http.Client{Transport: n}).Do(r)
}

func TestBodyArrivesWhileItIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &loopback.Network{}
		n.Set("a", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for _, text := range []string{"one", "two"} {
				_, _ = io.WriteString(w, text)
				time.Sleep(time.Second)
			}
		}))
		start := time.Now()
		resp, err := get(t, n, "http://a/")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		buf := make([]byte, 10)
		for i, want := range []string{"one", "two"} {
			k, err := resp.Body.Read(buf)
			if string(buf[:k]) != want || err != nil || time.Since(start) != time.Duration(i)*time.Second {
				t.Errorf("%q, %v after %v", buf[:k], err, time.Since(start))
			}
		}
		if _, err := resp.Body.Read(buf); err != io.EOF {
			t.Errorf("the body ends with %v", err)
		}
		n.Wait()
	})
}

func TestHandlerSeesThatTheClientIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &loopback.Network{}
		var failed error
		n.Set("a", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			_, failed = w.Write([]byte("x"))
		}))
		resp, err := get(t, n, "http://a/")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		n.Wait()
		if failed == nil {
			t.Error("a write after that does not fail")
		}
	})
}

func TestCutsAndRefusals(t *testing.T) {
	n := &loopback.Network{}
	n.Set("a", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "half")
		panic(http.ErrAbortHandler)
	}))
	resp, err := get(t, n, "http://a/")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, err := io.ReadAll(resp.Body); string(got) != "half" || !errors.Is(err, loopback.ErrCut) {
		t.Errorf("%q, %v", got, err)
	}
	n.Set("a", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	if _, err := get(t, n, "http://a/"); !errors.Is(err, loopback.ErrCut) {
		t.Errorf("a handler without an answer gives %v", err)
	}
	if _, err := get(t, n, "http://b/"); err == nil {
		t.Error("a host that is not there answers")
	}
}

func TestCutEndsWhatIsUnderWay(t *testing.T) {
	n := &loopback.Network{}
	n.Set("a", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	resp, err := get(t, n, "http://a/")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	n.Cut("b")
	n.Cut("a")
	if _, err := io.ReadAll(resp.Body); !errors.Is(err, loopback.ErrCut) {
		t.Errorf("the body ends with %v", err)
	}
	n.Wait()
}
