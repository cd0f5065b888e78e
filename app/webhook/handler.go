package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/routesrv/routesrv/app/httpserve"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
)

const (
	// maxReview limits a request in bytes. An API server accepts objects of at most 3 MiB, and a review has two of them, escaped
	// in the worst case.
	maxReview = 16 << 20
	// maxReviews is how many requests are read and judged concurrently; others wait until the API server gives up. Together with
	// maxReview it limits the memory.
	maxReviews = 8
	// API servers cut longer texts: each warning at 256 bytes, and all warnings of an answer together at 4096.
	maxWarning  = 256
	maxWarnings = 12
)

// reviewed maps the group and kind of a request to a kind that is judged. All versions of a group compile alike; an API server
// converts objects to the version in its rule.
var reviewed = map[metav1.GroupVersionKind]kube.Kind{
	{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"}: kube.KindIngress,
	{Group: "zalando.org", Version: "v1", Kind: "RouteGroup"}:    kube.KindRouteGroup,
}

type handler struct {
	judge   *Judge
	log     *slog.Logger
	metrics *Metrics
	turns   httpserve.Turns // of reviews in progress
}

// ServeHTTP implements [http.Handler]. It answers 400, 413 or 415 to a request that is not a review, and 503 if no slot became
// free.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	done, ok := h.turns.Wait(r.Context(), 0)
	if !ok {
		http.Error(w, "too many reviews at a time", http.StatusServiceUnavailable)
		return
	}
	defer done()
	began := time.Now()
	review, status, err := readReview(w, r)
	if err != nil {
		h.metrics.reviews.WithLabelValues("", "", resultFailed).Inc()
		h.log.Warn("invalid AdmissionReview", "error", err, "remote", r.RemoteAddr)
		http.Error(w, err.Error(), status)
		return
	}
	response, result := h.answer(review.Request)
	h.metrics.reviews.WithLabelValues(string(reviewed[review.Request.Kind]), string(review.Request.Operation), result).Inc()
	h.metrics.duration.Observe(time.Since(began).Seconds())
	body, err := json.Marshal(&admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: response})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(body)
}

// readReview reads the request. The status is for an error.
func readReview(w http.ResponseWriter, r *http.Request) (_ *admissionv1.AdmissionReview, status int, _ error) {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return nil, http.StatusUnsupportedMediaType, fmt.Errorf("content type %q: must be application/json", r.Header.Get("Content-Type"))
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxReview))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("the review has more than %d bytes", maxReview)
	}
	if err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("read the review: %w", err)
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &review); err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("read the review: %w", err)
	}
	if want := admissionv1.SchemeGroupVersion.String(); review.APIVersion != want || review.Kind != "AdmissionReview" {
		return nil, http.StatusBadRequest, fmt.Errorf("%s %s: must be AdmissionReview %s", review.Kind, review.APIVersion, want)
	}
	if review.Request == nil {
		return nil, http.StatusBadRequest, errors.New("the review has no request")
	}
	return &review, 0, nil
}

func (h *handler) answer(r *admissionv1.AdmissionRequest) (_ *admissionv1.AdmissionResponse, result string) {
	response := &admissionv1.AdmissionResponse{UID: r.UID, Allowed: true}
	kind, ok := reviewed[r.Kind]
	if !ok || r.SubResource != "" || r.Operation != admissionv1.Create && r.Operation != admissionv1.Update {
		return response, resultSkipped
	}
	v, err := h.judge.Review(kind, r.Object.Raw, r.OldObject.Raw)
	switch {
	case err != nil: // cannot happen for the judged kinds
		h.log.Error("object not judged", "kind", kind, "namespace", r.Namespace, "name", r.Name, "error", err)
		return response, resultFailed
	case v.Skipped:
		return response, resultSkipped
	}
	response.Warnings = warnings(slices.Concat(texts(v.Refused), v.Taken, v.Takeovers, texts(v.Warnings)))
	switch {
	case len(v.Refused)+len(v.Taken) > 0:
		response.Allowed = false
		response.Result = refusal(v)
		response.Warnings = warnings(slices.Concat(v.Takeovers, texts(v.Warnings)))
		h.log.Info("object refused", "kind", kind, "namespace", r.Namespace, "name", r.Name, "operation", r.Operation,
			"user", r.UserInfo.Username, "problems", response.Result.Message)
		return response, resultRefused
	case len(response.Warnings) > 0:
		return response, resultWarned
	}
	return response, resultAllowed
}

func refusal(v Verdict) *metav1.Status {
	status := &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid, Details: &metav1.StatusDetails{},
		Message: strings.Join(slices.Concat(texts(v.Refused), v.Taken), "; "),
	}
	for _, p := range v.Refused {
		status.Details.Causes = append(status.Details.Causes, metav1.StatusCause{Type: metav1.CauseType(p.Reason), Message: text(p)})
	}
	for _, t := range v.Taken {
		status.Details.Causes = append(status.Details.Causes, metav1.StatusCause{Type: "takeover", Message: t})
	}
	return status
}

func texts(problems []rules.Problem) []string {
	all := make([]string, len(problems))
	for i, p := range problems {
		all[i] = text(p)
	}
	return all
}

func warnings(texts []string) []string {
	var all []string
	for i, t := range texts {
		if i == maxWarnings {
			all = append(all, fmt.Sprintf("and %d more: see /problems and /takeovers of the route server", len(texts)-i))
			break
		}
		all = append(all, cut(t, maxWarning))
	}
	return all
}

// cut shortens s to at most n bytes, without breaking a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n-3], "") + "..."
}
