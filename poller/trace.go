package poller

import (
	"time"

	"github.com/routesrv/routesrv/kube"
)

// ReadTrace is told how one read goes, by the goroutine that makes it. Its methods must not block.
type ReadTrace interface {
	// Phase is told when a phase has ended: read or compile.
	Phase(name string, began, ended time.Time)
	// End is told last. The result is the label that routesrv_polls_total counts it under, and the reason that of
	// routesrv_poll_failures_total; it is empty unless the result is error. The revisions are the lowest and the highest of the lists,
	// 0 after a failure. An empty result is that of a read that was given up because the loop ends.
	End(result, reason string, oldest, newest kube.Revision)
}

// untraced is the trace of a read that nobody follows.
type untraced struct{}

func (untraced) Phase(string, time.Time, time.Time)               {}
func (untraced) End(string, string, kube.Revision, kube.Revision) {}

// beginTrace begins the trace of a read, before the gate hears of it.
func (p *Poller) beginTrace(began time.Time) ReadTrace {
	if p.cfg.Trace == nil {
		return untraced{}
	}
	return p.cfg.Trace(began)
}
