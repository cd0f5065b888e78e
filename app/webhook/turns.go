package webhook

import "sync"

// turns lets one review of each namespace run at a time, so that the expensive objects of one team cannot take every processor from the reviews of
// others. The zero value is ready. It is safe for concurrent use.
type turns struct {
	mu  sync.Mutex
	all map[string]*turn // of the namespaces with a review that runs or waits
}

type turn struct {
	running sync.Mutex
	reviews int // that run or wait; guarded by turns.mu
}

// take waits for the turn of a namespace. The caller must call done.
func (t *turns) take(namespace string) (done func()) {
	t.mu.Lock()
	if t.all == nil {
		t.all = make(map[string]*turn)
	}
	one := t.all[namespace]
	if one == nil {
		one = new(turn)
		t.all[namespace] = one
	}
	one.reviews++
	t.mu.Unlock()
	one.running.Lock()
	return func() {
		one.running.Unlock()
		t.mu.Lock()
		defer t.mu.Unlock()
		if one.reviews--; one.reviews == 0 {
			delete(t.all, namespace)
		}
	}
}
