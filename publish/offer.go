package publish

import (
	"github.com/routesrv/routesrv/table"
)

// Attempt is one attempt to get a table. It must be used by one goroutine only.
type Attempt struct {
	publisher *Publisher
	end       func(*table.Table, table.Read)
	endCanary func(*table.Table, table.Read)
}

// Begin reports that a producer starts reading its source.
func (p *Publisher) Begin() *Attempt {
	return &Attempt{p, p.cfg.Sink.Begin(), p.cfg.Canary.Sink.Begin()}
}

// Offer offers the result of the attempt. Call it at most once.
func (a *Attempt) Offer(c Candidate) Outcome {
	a.publisher.mu.Lock()
	defer a.publisher.mu.Unlock()
	return a.offer(c)
}

// OfferSeen is Offer after a request for the difference from a state. If that is no longer the state, the result is
// [Overtaken].
func (a *Attempt) OfferSeen(seen Tables, c Candidate) Outcome {
	a.publisher.mu.Lock()
	defer a.publisher.mu.Unlock()
	if p := a.publisher; p.served.Load() != seen.Served || p.Held() != seen.Held {
		return Outcome{Result: Overtaken, Now: p.Table()}
	}
	return a.offer(c)
}

// offer serves as much of a candidate as possible. The caller holds mu.
func (a *Attempt) offer(newest Candidate) Outcome {
	p := a.publisher
	o, held := Outcome{Result: Held, Before: p.Table()}, len(p.standing.Load().list.tables()) > 0
	if d := p.decide(newest, nil); len(d.list.tables()) > 0 {
		p.hold(&d, a)
	} else {
		if held && o.Before != nil && len(d.due.tables()) == 0 {
			p.log.Info(LogHoldEnded)
		}
		o.Result = p.serve(&d, a, nil)
	}
	o.Now = p.Table()
	return o
}
