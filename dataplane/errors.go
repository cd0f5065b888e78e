package dataplane

import (
	"errors"
	"fmt"
	"time"
)

// Reason says in one word why an exchange with a server gave nothing. It is the same in logs, metrics and the status.
type Reason string

// Reasons why there is no answer to look at.
const (
	ReasonConnect  Reason = "connect"   // the connection could not be made, or broke before the headers were complete
	ReasonTimeout  Reason = "timeout"   // the deadline of the exchange passed
	ReasonStatus   Reason = "status"    // a status that is none of 200, 304, 404 and redirects
	ReasonNotReady Reason = "not_ready" // 404: the server has no table yet
	ReasonRedirect Reason = "redirect"  // redirects are not followed
	ReasonProtocol Reason = "protocol"  // a 304 to a request that named nothing, or for what it did not name
)

// Reasons why a body is no candidate.
const (
	ReasonLength   Reason = "length"    // it broke off, is not as long as announced, or nothing tells its length
	ReasonEncoding Reason = "encoding"  // unknown, or it cannot be decoded
	ReasonTooLarge Reason = "too_large" // more than MaxBytes
	ReasonTag      Reason = "tag"       // a server of ours sent an ETag that is not of our form
	ReasonDigest   Reason = "digest"    // the text has not the digest in the ETag
	ReasonParse    Reason = "parse"     // the text is no table
	ReasonCount    Reason = "count"     // X-Count is not the number of routes
	ReasonDelta    Reason = "delta"     // a delta is not of the form, not for a table that the client has, or does not lead to its target
	ReasonUnsafe   Reason = "unsafe"    // a route would end the process of every proxy: package proxysafe
	ReasonPanic    Reason = "panic"     // a bug of ours
)

// Reasons why there is no stream.
const (
	ReasonNoStreams Reason = "no_streams" // the server does not know them
	ReasonBusy      Reason = "busy"       // 429: the server has as many as it takes
	ReasonBroken    Reason = "broken"     // the connection was lost
	ReasonSilent    Reason = "silent"     // nothing was heard for too long
)

var (
	fetchReasons = []Reason{ReasonConnect, ReasonTimeout, ReasonStatus, ReasonNotReady, ReasonRedirect, ReasonProtocol}
	// verifyReasons are those after which the answer is rejected: the bytes came, and are no good.
	verifyReasons = []Reason{
		ReasonLength, ReasonEncoding, ReasonTooLarge, ReasonTag, ReasonDigest, ReasonParse, ReasonCount, ReasonDelta,
		ReasonUnsafe, ReasonPanic,
	}
)

// ErrNoTable says that there is no table yet.
var ErrNoTable = errors.New("no table yet")

// Error is why an exchange with a server gave nothing. It changes nothing but the health of the server.
type Error struct {
	URL    string // without password
	Reason Reason
	Err    error

	dropped    int64         // bytes that were decoded for nothing
	ofDelta    bool          // it is about an answer that was a delta
	retryAfter time.Duration // advice of the server; 0 if there is none
	stack      []byte        // of a panic
}

// Error says what failed, with the URL.
func (e *Error) Error() string { return fmt.Sprintf("%s: %v", e.URL, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// failf makes an Error whose URL is filled in where it is known.
func failf(reason Reason, format string, args ...any) *Error {
	return &Error{Reason: reason, Err: fmt.Errorf(format, args...)}
}
