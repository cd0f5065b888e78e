package dataplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"time"
)

// caught converts a panic to an error; it returns f if there was none.
func caught(panicked any, f *Error) *Error {
	if panicked != nil {
		f = failf(ReasonPanic, "panic: %v", panicked)
		f.stack = debug.Stack()
	}
	return f
}

// transferReason returns otherwise, unless a deadline has passed.
func transferReason(err error, otherwise Reason) Reason {
	var timeout net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		return ReasonTimeout
	}
	return otherwise
}

// Reason says in one word why an exchange with a server failed. It is the same in logs, metrics and the status.
type Reason string

// Reasons why there is no answer to evaluate.
const (
	ReasonConnect  Reason = "connect"   // the connection could not be opened, or broke before the headers were complete
	ReasonTimeout  Reason = "timeout"   // the deadline of the exchange passed
	ReasonStatus   Reason = "status"    // a status other than 200, 304, 404 and redirects
	ReasonNotReady Reason = "not_ready" // 404: the server has no table yet
	ReasonRedirect Reason = "redirect"  // redirects are not followed
	ReasonProtocol Reason = "protocol"  // a 304 to a request that named no table, or for a table that it did not name
)

// Reasons why a body is not a candidate.
const (
	ReasonLength   Reason = "length"    // it was truncated, or has not the announced length
	ReasonEncoding Reason = "encoding"  // the encoding is unknown, or the body cannot be decoded
	ReasonTooLarge Reason = "too_large" // more than MaxBytes
	ReasonTag      Reason = "tag"       // the ETag has no digest
	ReasonDigest   Reason = "digest"    // the text does not have the digest in the ETag
	ReasonParse    Reason = "parse"     // the text is not a table
	ReasonCount    Reason = "count"     // X-Count is not the number of routes
	ReasonDelta    Reason = "delta"     // a delta is malformed, does not apply to a table of the client, or does not lead to its target
	ReasonPanic    Reason = "panic"     // a bug in this program
)

// Reasons why there is no stream.
const (
	ReasonNoStreams Reason = "no_streams" // the server does not support streams
	ReasonBusy      Reason = "busy"       // 429: the server has reached its limit of streams
	ReasonBroken    Reason = "broken"     // the connection was lost
	ReasonSilent    Reason = "silent"     // nothing was received for too long
)

var (
	fetchReasons = []Reason{ReasonConnect, ReasonTimeout, ReasonStatus, ReasonNotReady, ReasonRedirect, ReasonProtocol}
	// verifyReasons are the reasons after which an answer counts as rejected: it arrived but is invalid.
	verifyReasons = []Reason{
		ReasonLength, ReasonEncoding, ReasonTooLarge, ReasonTag, ReasonDigest, ReasonParse, ReasonCount, ReasonDelta,
		ReasonPanic,
	}
)

// Error is a failed exchange with a server. A failure changes nothing except the health of the server.
type Error struct {
	URL    string // without the password
	Reason Reason
	Err    error

	ofDelta    bool          // the answer was a delta
	retryAfter time.Duration // advice of the server; 0 if there is none
	stack      []byte        // of a panic
}

// Error returns what failed, with the URL.
func (e *Error) Error() string { return fmt.Sprintf("%s: %v", e.URL, e.Err) }

func (e *Error) attrs() []any {
	attrs := []any{"url", e.URL, "reason", string(e.Reason), "error", e.Err}
	if e.stack != nil {
		attrs = append(attrs, "stack", string(e.stack))
	}
	return attrs
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// failf returns an Error; the caller fills in the URL.
func failf(reason Reason, format string, args ...any) *Error {
	return &Error{Reason: reason, Err: fmt.Errorf(format, args...)}
}

// logAgain is how long a message is not logged again for the same cause: a server can cause events several times a second.
const logAgain = 5 * time.Minute

// dedupLogger logs recurring messages once in logAgain for each cause, and otherwise at debug level. It is safe for concurrent use.
type dedupLogger struct {
	log  *slog.Logger
	mu   sync.Mutex
	last map[message]time.Time // guarded by mu; few messages and causes
}

// message is a text with its cause, from a small fixed set.
type message struct{ text, cause string }

// Log logs a message.
func (d *dedupLogger) Log(level slog.Level, text, cause string, attrs ...any) {
	now, key := time.Now(), message{text, cause}
	d.mu.Lock()
	if now.Sub(d.last[key]) < logAgain {
		level = slog.LevelDebug
	} else {
		d.last[key] = now
	}
	d.mu.Unlock()
	d.log.Log(context.Background(), level, text, attrs...)
}
