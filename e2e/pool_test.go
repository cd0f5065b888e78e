package e2e

import (
	"errors"
	"fmt"
	"sync"
	"testing"
)

// sideBySide is how many tests run at a time, each on its own API server: most of what they do is wait. An API server takes about
// ten seconds of a processor to start, and 300 MB.
const sideBySide = 3

// pool lends API servers to tests. It starts one when a test needs it, and reuses it for the next: a test removes what it has
// added, and leaves the API server running.
type pool struct {
	idle chan *cluster // nil where none was started yet

	// starting is held during a start, which needs a processor, and in which envtest waits for some things for seconds only.
	starting sync.Mutex
}

func newPool() *pool {
	p := &pool{idle: make(chan *cluster, sideBySide)}
	for range sideBySide {
		p.idle <- nil
	}
	return p
}

// ownCluster makes a test parallel, and lends it an API server for itself until all its cleanups have run.
func ownCluster(t *testing.T) *cluster {
	t.Helper()
	t.Parallel()
	c := <-clusters.idle
	t.Cleanup(func() {
		if c != nil && t.Failed() {
			// Nobody knows in what state it is: the next test gets another one.
			if err := c.stop(); err != nil {
				t.Log("stop kube-apiserver and etcd:", err)
			}
			c = nil
		}
		clusters.idle <- c
	})
	if c == nil {
		var err error
		if c, err = clusters.start(); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func (p *pool) start() (*cluster, error) {
	p.starting.Lock()
	defer p.starting.Unlock()
	return startCluster()
}

// stop ends all API servers, after the last test.
func (p *pool) stop() error {
	var errs []error
	for range sideBySide {
		if c := <-p.idle; c != nil {
			errs = append(errs, c.stop())
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("stop kube-apiserver and etcd: %w", err)
	}
	return nil
}
