package dataplane

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"github.com/routesrv/routesrv/internal/api"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

// maxSmallEvent limits the data of an event that is neither a table nor a delta.
const maxSmallEvent = 1 << 20

// payload receives the data of an event while it arrives, so that it is in memory only once, in its final form.
type payload interface {
	io.Writer
	// finish sets the result in the event.
	finish(e *event)
	// abort is called instead if the event does not complete.
	abort()
}

// textPayload keeps the data unchanged.
type textPayload struct{ strings.Builder }

func (p *textPayload) Write(b []byte) (int, error) {
	if p.Len()+len(b) > maxSmallEvent {
		return 0, fmt.Errorf("%w: more than %d bytes", errEventTooLarge, maxSmallEvent)
	}
	return p.Builder.Write(b)
}

func (p *textPayload) finish(e *event) { e.data = p.String() }
func (p *textPayload) abort()          {}

// tablePayload decodes a table.
type tablePayload struct {
	decoder *table.Decoder
	hash    hash.Hash
}

func (p *tablePayload) Write(b []byte) (int, error) {
	p.hash.Write(b) // a hash does not fail
	n, err := p.decoder.Write(b)
	if err != nil {
		err = fmt.Errorf("%w: %w", errEventTooLarge, err)
	}
	return n, err
}

func (p *tablePayload) finish(e *event) {
	e.decoder = p.decoder
	p.hash.Sum(e.digest[:0])
}

func (p *tablePayload) abort() {}

// deltaPayload decodes a delta in a goroutine, which ends with finish or abort.
type deltaPayload struct {
	to     *io.PipeWriter
	ended  chan struct{} // closed when the fields below are set
	delta  *table.Delta
	failed *Error
}

// errAborted is the read error in the goroutine of an event that does not complete.
var errAborted = errors.New("the event was not complete")

func newDeltaPayload(limit int64) *deltaPayload {
	from, to := io.Pipe()
	p := &deltaPayload{to: to, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		defer func() {
			p.failed = caught(recover(), p.failed)
			from.Close() // the rest is accepted and discarded
		}()
		p.delta, p.failed = readDeltaFrom(from, limit)
	}()
	return p
}

func (p *deltaPayload) Write(b []byte) (int, error) {
	if _, err := p.to.Write(b); err != nil {
		<-p.ended
		if p.failed != nil && p.failed.Reason == ReasonTooLarge {
			return 0, fmt.Errorf("%w: %w", errEventTooLarge, p.failed.Err)
		}
	}
	return len(b), nil // an error in the delta is reported when all of it has arrived
}

func (p *deltaPayload) finish(e *event) {
	p.to.Close()
	<-p.ended
	e.delta, e.failed = p.delta, p.failed
}

func (p *deltaPayload) abort() {
	p.to.CloseWithError(errAborted)
	<-p.ended
}

// newPayload returns the payload for an event of that name. Our route servers send the name first in an event; if it comes later,
// the data must be small.
func (c *Client) newPayload(name string) payload {
	switch name {
	case api.EventTable:
		return &tablePayload{c.decoder(view{publish.View{Served: c.publisher.Served(), Held: c.publisher.Held()}}, c.limit()), sha256.New()}
	case api.EventDelta:
		return newDeltaPayload(c.limit())
	}
	return &textPayload{}
}
