package dataplane

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"github.com/routesrv/routesrv/gate"
	"github.com/routesrv/routesrv/internal/wire"
	"github.com/routesrv/routesrv/table"
)

// maxSmallEvent bounds the data of an event that is neither a table nor a delta.
const maxSmallEvent = 1 << 20

// payload takes the data of an event while it comes, so that it is in memory once, in its final form.
type payload interface {
	io.Writer
	// finish sets what the data have come to.
	finish(e *event)
	// abort is called instead if the event does not come to its end.
	abort()
}

// textPayload keeps the data as they are.
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

// deltaPayload decodes a delta, in a goroutine that ends with finish or abort.
type deltaPayload struct {
	to     *io.PipeWriter
	ended  chan struct{} // closed when what follows is set
	delta  *table.Delta
	failed *Error
}

// errAborted is what the goroutine of an event reads that does not come to its end.
var errAborted = errors.New("the event was not complete")

func newDeltaPayload(limit int64) *deltaPayload {
	from, to := io.Pipe()
	p := &deltaPayload{to: to, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		defer func() {
			p.failed = caught(recover(), p.failed)
			from.Close() // the rest is taken and forgotten
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
	return len(b), nil // what is wrong with the delta is said when all of it has come
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

// newPayload is what takes the data of an event of that name. The names come first in an event of a route server; where they
// do not, the data have to be small.
func (c *Client) newPayload(name string) payload {
	switch name {
	case wire.EventTable:
		return &tablePayload{c.decoder(view{gate.View{Served: c.gate.Served(), Held: c.gate.Held()}}, c.limit()), sha256.New()}
	case wire.EventDelta:
		return newDeltaPayload(c.limit())
	}
	return &textPayload{}
}
