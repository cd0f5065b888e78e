package webhook_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/routesrv/routesrv/app/httpserve"
	"github.com/routesrv/routesrv/app/webhook"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
)

// review returns the JSON of a review.
func review(operation, kind, subresource string, object, old []byte) []byte {
	group := "networking.k8s.io"
	if kind == "RouteGroup" {
		group = "zalando.org"
	}
	if len(old) == 0 {
		old = []byte("null")
	}
	return fmt.Appendf(nil, `{
		"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
		"request": {"uid": "u-1", "kind": {"group": %q, "version": "v1", "kind": %q}, "subResource": %q, "namespace": "shop", "name": "a",
			"operation": %q, "userInfo": {"username": "dev"}, "object": %s, "oldObject": %s}
	}`, group, kind, subresource, operation, object, old)
}

// webhook returns the main listener's handler with its metrics.
func serveWebhook(t *testing.T) (http.Handler, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewRegistry()
	j := newJudge(t, shop(t), rules.Options{}, kube.Selection{})
	return httpserve.Mux(httpserve.MainListener, webhook.Endpoints(j, reg, slog.New(slog.DiscardHandler), webhook.NewMetrics(reg))), reg
}

func ask(t *testing.T, h http.Handler, body []byte) *admissionv1.AdmissionResponse {
	t.Helper()
	w := post(h, "application/json; charset=utf-8", bytes.NewReader(body))
	if w.Code != http.StatusOK {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	var answer admissionv1.AdmissionReview
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatal(err)
	}
	if answer.APIVersion != "admission.k8s.io/v1" || answer.Kind != "AdmissionReview" || answer.Response == nil || answer.Response.UID != "u-1" {
		t.Fatalf("no answer to this request: %s", w.Body)
	}
	return answer.Response
}

func post(h http.Handler, contentType string, body io.Reader) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/validate", body)
	r.Header.Set("Content-Type", contentType)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestAnswers(t *testing.T) {
	h, reg := serveWebhook(t)
	refused := ask(t, h, review("CREATE", "RouteGroup", "", routeGroup("g", "g.example.org", missing, "status(200)"), nil))
	if refused.Allowed || refused.Result.Code != http.StatusUnprocessableEntity || len(refused.Result.Details.Causes) != 1 ||
		!strings.HasPrefix(refused.Result.Message, "invalid_object: ") {
		t.Errorf("%+v", refused.Result)
	}
	warned := ask(t, h, review("UPDATE", "Ingress", "", ingress("a", "a.example.org", "/", "later", "{}"), nil))
	if !warned.Allowed || len(warned.Warnings) != 1 || !strings.HasPrefix(warned.Warnings[0], "service_not_found: ") {
		t.Errorf("%+v", warned)
	}
	good := ingress("a", "a.example.org", "/", "web", "{}")
	bad := routeGroup("g", "g.example.org", missing, "status(200)")
	for name, body := range map[string][]byte{
		"good":        review("CREATE", "Ingress", "", good, nil),
		"deleted":     review("DELETE", "RouteGroup", "", []byte("null"), bad),
		"status":      review("UPDATE", "RouteGroup", "status", bad, bad),
		"other kinds": review("CREATE", "NetworkPolicy", "", bad, nil),
	} {
		if got := ask(t, h, body); !got.Allowed || len(got.Warnings) != 0 || got.Result != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	want := `
# HELP routesrv_webhook_reviews_total Reviews: allowed, warned, refused, skipped (not an object of this route server) or failed.
# TYPE routesrv_webhook_reviews_total counter
routesrv_webhook_reviews_total{kind="",operation="CREATE",result="skipped"} 1
routesrv_webhook_reviews_total{kind="Ingress",operation="CREATE",result="allowed"} 1
routesrv_webhook_reviews_total{kind="Ingress",operation="UPDATE",result="warned"} 1
routesrv_webhook_reviews_total{kind="RouteGroup",operation="CREATE",result="refused"} 1
routesrv_webhook_reviews_total{kind="RouteGroup",operation="DELETE",result="skipped"} 1
routesrv_webhook_reviews_total{kind="RouteGroup",operation="UPDATE",result="skipped"} 1
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "routesrv_webhook_reviews_total"); err != nil {
		t.Error(err)
	}
}

// TestWarningsFitIntoAnAnswer: an API server truncates long warnings, even in the middle of a character.
func TestWarningsFitIntoAnAnswer(t *testing.T) {
	h, _ := serveWebhook(t)
	var paths []string
	for i := range 40 {
		paths = append(paths, fmt.Sprintf(`{"path": "/%d/%s(", "pathType": "ImplementationSpecific", "backend": {"service": {"name": "web", "port": {"number": 80}}}}`,
			i, strings.Repeat("ä", 200)))
	}
	object := fmt.Appendf(nil, `{"metadata": {"namespace": "shop", "name": "a"}, "spec": {"rules": [{"host": "a", "http": {"paths": [%s]}}]}}`,
		strings.Join(paths, ","))
	got := ask(t, h, review("CREATE", "Ingress", "", object, nil))
	total := 0
	for _, w := range got.Warnings {
		if total += len(w); len(w) > 256 || !utf8.ValidString(w) {
			t.Errorf("%d bytes: %s", len(w), w)
		}
	}
	if last := got.Warnings[len(got.Warnings)-1]; total > 4096 || !strings.HasPrefix(last, "and 28 more: see") {
		t.Errorf("%d bytes in %d warnings, the last is %q", total, len(got.Warnings), last)
	}
}

func TestWhatIsNoReview(t *testing.T) {
	h, reg := serveWebhook(t)
	for _, c := range []struct {
		name, contentType, body string
		status                  int
		text                    string
	}{
		{"form", "application/x-www-form-urlencoded", "a=b", http.StatusUnsupportedMediaType, "must be application/json"},
		{"no JSON", "application/json", "<html>", http.StatusBadRequest, "read the review"},
		{"another object", "application/json", `{"apiVersion": "v1", "kind": "Pod"}`, http.StatusBadRequest, "must be AdmissionReview admission.k8s.io/v1"},
		{"another version", "application/json", `{"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "request": {}}`,
			http.StatusBadRequest, "must be AdmissionReview admission.k8s.io/v1"},
		{"no request", "application/json", `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}`, http.StatusBadRequest, "no request"},
		{"endless", "application/json", `{"apiVersion": "` + strings.Repeat("x", 17<<20), http.StatusRequestEntityTooLarge, "16777216"},
	} {
		w := post(h, c.contentType, strings.NewReader(c.body))
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.text) {
			t.Errorf("%s: %d %s, want %d with %q", c.name, w.Code, w.Body, c.status, c.text)
		}
	}
	if got := testutil.ToFloat64(counter(t, reg)); got != 6 {
		t.Errorf("%v failures counted", got)
	}
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/validate", nil)); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d", w.Code)
	}
}

// counter returns the counter of reviews in a registry.
func counter(t *testing.T, reg *prometheus.Registry) prometheus.Collector {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	total := prometheus.NewCounter(prometheus.CounterOpts{Name: "total"})
	for _, f := range families {
		if f.GetName() == "routesrv_webhook_reviews_total" {
			for _, m := range f.GetMetric() {
				total.Add(m.GetCounter().GetValue())
			}
		}
	}
	return total
}

func FuzzReview(f *testing.F) {
	f.Add([]byte(`{}`))
	f.Add(review("CREATE", "Ingress", "", ingress("a", "a", "/", "web", "{}"), nil))
	f.Add(review("UPDATE", "RouteGroup", "", routeGroup("g", "g", missing, "status("), routeGroup("g", "g", shunt, "status(200)")))
	f.Add([]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"object":null,"operation":"CREATE","kind":{"group":"zalando.org","version":"v1","kind":"RouteGroup"}}}`))
	j, err := webhook.NewJudge(rules.Options{}, kube.Selection{}, false)
	if err != nil {
		f.Fatal(err)
	}
	j.Take(shop(f))
	reg := prometheus.NewRegistry()
	h := httpserve.Mux(httpserve.MainListener, webhook.Endpoints(j, reg, slog.New(slog.DiscardHandler), webhook.NewMetrics(reg)))
	f.Fuzz(func(t *testing.T, body []byte) {
		w := post(h, "application/json", bytes.NewReader(body))
		if w.Code == http.StatusOK {
			var answer admissionv1.AdmissionReview
			if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || answer.Response == nil {
				t.Errorf("%v: %s", err, w.Body)
			}
		}
	})
}
