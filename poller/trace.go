package poller

import (
	"time"

	"github.com/routesrv/routesrv/kube"
)

// ReadTrace is told the progress of one read, by the goroutine that makes it. Its methods must not block.
type ReadTrace interface {
	// Phase reports that a phase has ended: read or compile.
	Phase(name string, began, ended time.Time)
	// End is called last. The result is the label of the read in routesrv_polls_total, and the reason is the label in
	// routesrv_poll_failures_total, empty unless the result is error. The revisions are the lowest and the highest of the lists,
	// 0 after a failure. An empty result means that the read was abandoned because the loop ends.
	End(result, reason string, oldest, newest kube.Revision)
}

// untraced is the trace of a read without tracing.
type untraced struct{}

func (untraced) Phase(string, time.Time, time.Time)               {}
func (untraced) End(string, string, kube.Revision, kube.Revision) {}
