package etagcache

import (
	"time"

	"github.com/routesrv/routesrv/table"
)

// Answer is one answer about a table: to a request for it, or an event that brings a stream to it.
type Answer struct {
	// Began is when the request came, or the event began to be written; Ended when the last byte was handed to the network.
	Began, Ended time.Time
	// Status is that of the response. For a stream it is 226 for a delta and 200 for a table.
	Status int
	Stream bool
	// Digest and Revision are of the table of this replica from which the answer was made; zero before the first one.
	Digest   table.Digest
	Revision uint64
	// Published is the digest of the full table that this one is, or is made of.
	Published table.Digest
	Encoding  string // as the series of the responses have it
	Bytes     int    // of the body of a response; 0 for a stream
	Whole     bool   // all of the body was written
}

// begin notes when an exchange began, if anybody wants to know.
func (x *exchange) begin() {
	if x.cache.cfg.Answered != nil {
		x.began = time.Now()
	}
}

// answered counts an answer with n bytes of a body, and tells of it.
func (x *exchange) answered(status, n int, whole bool) {
	x.cache.cfg.Metrics.observeResponse(status, x.encoding, n)
	x.tell(status, n, whole, false)
}

// tell tells of an answer. Nothing is made for it, and no clock is read, while nobody listens.
func (x *exchange) tell(status, n int, whole, stream bool) {
	told := x.cache.cfg.Answered
	if told == nil {
		return
	}
	a := Answer{Began: x.began, Ended: time.Now(), Status: status, Stream: stream, Encoding: x.encoding.String(), Bytes: n, Whole: whole}
	if x.variant != nil {
		a.Digest, a.Revision = x.variant.table.Digest(), x.stamp.revision
		a.Published = x.state.version.table.Digest()
	}
	told(a)
}
