package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// TestQuestionsWaitForTheirTurn: two are answered at a time, and a third waits; if it waits too long, it gets 503.
func TestQuestionsWaitForTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuestions(prometheus.NewRegistry())
		release := make(chan struct{})
		h := q.limited("/match", func(w http.ResponseWriter, _ *http.Request) { <-release })
		ask := func(query string) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			h(w, httptest.NewRequest(http.MethodGet, "/match?"+query, nil))
			return w
		}
		done := make(chan int, maxQuestions)
		for range maxQuestions {
			go func() { done <- ask("").Code }()
		}
		synctest.Wait()
		start := time.Now()
		if w := ask(""); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || time.Since(start) != questionWait {
			t.Errorf("status %d after %v, want 503 after %v", w.Code, time.Since(start), questionWait)
		}
		if w := ask(strings.Repeat("x", maxQuestionText+1)); w.Code != http.StatusRequestURITooLong {
			t.Errorf("a long query: status %d, want 414", w.Code)
		}
		close(release)
		for range maxQuestions {
			if code := <-done; code != http.StatusOK {
				t.Errorf("status %d, want 200", code)
			}
		}
		if w := ask(""); w.Code != http.StatusOK {
			t.Errorf("status %d once the others are done, want 200", w.Code)
		}
	})
}
