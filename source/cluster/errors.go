package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/routesrv/routesrv/source/cluster/internal/decode"
)

// errNoRevision reports a list without a revision although the request asked for a minimum revision.
var errNoRevision = errors.New("the list has no revision and could be older than requested")

// reason is the metric label of a failed request.
type reason string

const (
	reasonCanceled   reason = "canceled"   // the caller gave up
	reasonTimeout    reason = "timeout"    // no complete answer in time
	reasonConnection reason = "connection" // no connection, or it broke before or during the answer
	reasonForbidden  reason = "forbidden"  // 401 and 403
	reasonNotFound   reason = "not_found"
	reasonStatus     reason = "status" // any other status but 200
	reasonBody       reason = "body"   // an answer that is not a complete list of the kind
	reasonStale      reason = "stale"  // older than requested
)

// failure explains why a request gave no usable answer.
type failure struct {
	reason reason
	err    error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// failf returns a formatted error with a reason for [reasonOf].
func failf(r reason, format string, args ...any) error {
	return &failure{r, fmt.Errorf(format, args...)}
}

// reasonOf returns the reason of an error, [reasonConnection] if it has none.
func reasonOf(err error) reason {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.reason
	}
	return reasonConnection
}

// transportError describes a failure of the transport. ctx is the request's context with the deadline; parent is the
// caller's.
func (c *client) transportError(ctx, parent context.Context, path string, err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // the rest repeats method and URL
	}
	switch {
	case parent.Err() != nil:
		return failf(reasonCanceled, "request to %s: %w", path, parent.Err())
	case ctx.Err() != nil:
		return failf(reasonTimeout, "request to %s: no complete answer within %v: %w", path, c.cfg.Timeout, context.Cause(ctx))
	default:
		return failf(reasonConnection, "request to %s: %w", path, err)
	}
}

// statusError is an answer with a status other than 200, or the status with which the server ended a watch.
type statusError struct {
	metav1.Status
	text string
}

func (e *statusError) Error() string { return e.text }

// maxRetryAfter caps the seconds that a server may ask us to wait.
const maxRetryAfter = 3600

// maxMessage is how many bytes of a server's message an error includes.
const maxMessage = 512

// newStatusError returns the error for an answer. The body may be a Status object in either encoding, or anything
// else. missing is the required permission.
func newStatusError(resp *http.Response, path, missing string, body []byte) error {
	code := resp.StatusCode
	e := &statusError{Status: decode.Status(body)}
	e.Code = int32(code)
	if e.Details == nil {
		e.Details = &metav1.StatusDetails{}
	}
	e.Details.RetryAfterSeconds = 0 // the header counts
	if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && n > 0 {
		e.Details.RetryAfterSeconds = int32(min(n, maxRetryAfter))
	}
	e.text = fmt.Sprintf("request to %s failed, status: %d, %d %s", path, code, code, http.StatusText(code))
	r, hint := reasonStatus, ""
	switch code {
	case http.StatusNotFound:
		r, e.text = reasonNotFound, "resource not found: "+path
	case http.StatusForbidden:
		r, e.text, hint = reasonForbidden, "forbidden: "+e.text, " (grant "+missing+")"
	case http.StatusUnauthorized:
		r, e.text, hint = reasonForbidden, "unauthorized: "+e.text, " (the API server does not accept the credentials)"
	}
	if message := oneLine(e.Message); message != "" {
		e.text += ": " + message
	}
	e.text += hint
	return &failure{r, e}
}

// statusCode returns the HTTP status of an error answer, 0 if the error is not one.
func statusCode(err error) int {
	if e, ok := errors.AsType[*statusError](err); ok {
		return int(e.Code)
	}
	return 0
}

// retryAfter returns how long the server asks to wait before the next request, 0 if unspecified.
func retryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*statusError](err); ok && e.Details != nil {
		return time.Duration(e.Details.RetryAfterSeconds) * time.Second
	}
	return 0
}

// isNotFound reports whether the API server has answered 404.
func isNotFound(err error) bool { return statusCode(err) == http.StatusNotFound }

// isGone reports whether the API server no longer has the requested revision.
func isGone(err error) bool { return statusCode(err) == http.StatusGone }

// isTooNew reports whether the API server has not reached the requested revision.
func isTooNew(err error) bool {
	e, ok := errors.AsType[*statusError](err)
	if !ok || e.Code != http.StatusGatewayTimeout {
		return false
	}
	tooLarge := func(c metav1.StatusCause) bool { return c.Type == metav1.CauseTypeResourceVersionTooLarge }
	return e.Details != nil && slices.ContainsFunc(e.Details.Causes, tooLarge) || strings.Contains(e.Message, "Too large resource version")
}

// needsConsistent reports whether the API server cannot prove that it serves the requested revision. A consistent
// list needs no such proof.
func needsConsistent(err error) bool {
	return errors.Is(err, errNoRevision) || isGone(err) || isTooNew(err)
}

// isDown reports whether the API server did not answer, or answered that it cannot serve.
func isDown(err error) bool {
	if err == nil {
		return false
	}
	if code := statusCode(err); code != 0 {
		return code >= http.StatusInternalServerError || code == http.StatusTooManyRequests
	}
	switch reasonOf(err) {
	case reasonConnection, reasonTimeout, reasonCanceled:
		return true
	}
	return false
}

// oneLine joins a server's message into one line of at most [maxMessage] bytes.
func oneLine(message string) string {
	text := strings.ToValidUTF8(strings.Join(strings.Fields(message), " "), "\ufffd")
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "…"
	}
	return text
}
