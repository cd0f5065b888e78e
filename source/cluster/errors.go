package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// errRestored says that a consistent list answered with a revision below one that was seen before.
var errRestored = errors.New("the revision is lower than one seen before")

// errNoRevision says that a list does not tell its revision although one was asked for.
var errNoRevision = errors.New("it has no revision and could be older than what was asked for")

// reason is the label of a failed request in the metrics.
type reason string

const (
	reasonCanceled   reason = "canceled"   // the caller gave up
	reasonTimeout    reason = "timeout"    // not answered, or not completely, in time
	reasonConnection reason = "connection" // no connection, or it broke before or in the answer
	reasonForbidden  reason = "forbidden"  // 401 and 403
	reasonNotFound   reason = "not_found"
	reasonStatus     reason = "status" // any other status but 200
	reasonBody       reason = "body"   // an answer that is not a complete list of the kind
	reasonStale      reason = "stale"  // older than what was asked for
)

// failure is why a request gave nothing that can be used.
type failure struct {
	reason reason
	err    error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func fail(r reason, format string, args ...any) error {
	return &failure{r, fmt.Errorf(format, args...)}
}

func reasonOf(err error) reason {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.reason
	}
	return reasonConnection
}

// transportError says what went wrong on the way. The context of the request has the deadline, parent is the caller's.
func (s *Source) transportError(ctx, parent context.Context, path string, err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // the rest of it repeats method and URL
	}
	switch {
	case parent.Err() != nil:
		return fail(reasonCanceled, "request to %s: %w", path, parent.Err())
	case ctx.Err() != nil:
		return fail(reasonTimeout, "request to %s: no complete answer within %v: %w", path, s.cfg.Timeout, ctx.Err())
	default:
		return fail(reasonConnection, "request to %s: %w", path, err)
	}
}

// statusError is an answer with a status other than 200.
type statusError struct {
	code    int
	path    string // with query
	message string // of the API server, may be empty
	tooNew  bool   // the server has not reached the resourceVersion that was asked for
	missing string // the permission that the request needs
	status  metav1.Status
}

// Status gives what the API server said, for client-go.
func (e *statusError) Status() metav1.Status { return e.status }

func (e *statusError) Error() string {
	text := fmt.Sprintf("request to %s failed, status: %d, %d %s", e.path, e.code, e.code, http.StatusText(e.code))
	switch e.code {
	case http.StatusNotFound:
		text = "resource not found: " + e.path
	case http.StatusForbidden:
		text = "forbidden: " + text
	case http.StatusUnauthorized:
		text = "unauthorized: " + text
	}
	if e.message != "" {
		text += ": " + e.message
	}
	switch e.code {
	case http.StatusForbidden:
		text += " (grant " + e.missing + ")"
	case http.StatusUnauthorized:
		text += " (the API server does not accept the credentials)"
	}
	return text
}

// needsConsistent reports whether the server cannot prove that it serves the revision that was asked for, and a
// consistent list needs no proof.
func needsConsistent(err error) bool {
	if errors.Is(err, errNoRevision) {
		return true
	}
	e, ok := errors.AsType[*statusError](err)
	return ok && (e.code == http.StatusGone || e.tooNew)
}

// maxMessage is how many bytes of a server's message go into an error.
const maxMessage = 512

// newStatusError makes an error of an answer. The body may be a Status object in either encoding, or anything.
func newStatusError(code int, path, missing string, body []byte) error {
	e := &statusError{code: code, path: path, missing: missing}
	var status metav1.Status
	if raw, ok := statusMessage(body); ok {
		_ = status.Unmarshal(raw) // whatever could be read of it
	} else if json.Unmarshal(body, &status) != nil {
		status.Message = string(body)
	}
	e.message = status.Message
	if len(e.message) > maxMessage {
		e.message = e.message[:maxMessage] + "…"
	}
	e.message = strings.ToValidUTF8(strings.Join(strings.Fields(e.message), " "), "\ufffd") // one line
	e.tooNew = code == http.StatusGatewayTimeout && isTooNew(&status)
	status.Code = int32(code)
	e.status = status

	r := reasonStatus
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden:
		r = reasonForbidden
	case http.StatusNotFound:
		r = reasonNotFound
	}
	return &failure{r, e}
}

func isTooNew(s *metav1.Status) bool {
	if s.Details != nil {
		for _, c := range s.Details.Causes {
			if c.Type == metav1.CauseTypeResourceVersionTooLarge {
				return true
			}
		}
	}
	return strings.Contains(s.Message, "Too large resource version")
}
