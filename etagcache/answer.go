package etagcache

import (
	"time"

	"github.com/routesrv/routesrv/table"
)

// Answer is one answer with a table: a response, or an event that brings a stream to the table.
type Answer struct {
	// Began is when the request arrived or writing the event began. Ended is when the last byte was passed to the network.
	Began, Ended time.Time
	// Status is the status of the response. For a stream it is 226 for a delta and 200 for a table.
	Status int
	Stream bool
	// Digest and Revision are of this replica's table from which the answer was made; zero before the first one.
	Digest   table.Digest
	Revision uint64
	// Published is the digest of the full table: this table, or the one that it was derived from.
	Published table.Digest
	Encoding  string // as in the series of the responses
	Bytes     int    // of the body of a response; 0 for a stream
	Whole     bool   // the whole body was written
}

// begin records when an exchange began, if answers are reported.
func (x *exchange) begin() {
	if x.cache.cfg.Answered != nil {
		x.began = time.Now()
	}
}

// answered counts an answer with n bytes of a body, and reports it.
func (x *exchange) answered(status, n int, whole bool) {
	x.cache.cfg.Metrics.observeResponse(status, x.encoding, n)
	x.tell(status, n, whole, false)
}

// tell reports an answer. Without a listener it allocates nothing and reads no clock.
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
