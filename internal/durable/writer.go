package durable

import (
	"sync"
	"time"
)

// Writer calls a function in a goroutine that lives while there is something to write, so that nobody has to wait for a disk. Requests
// that come while it writes lead to one more call. All methods are safe for concurrent use.
type Writer struct {
	write func()

	mu    sync.Mutex
	again bool          // requested since the last call began
	idle  chan struct{} // closed when the goroutine has ended; nil while there is none
}

// NewWriter returns a Writer for a function that writes whatever is wanted when it is called.
func NewWriter(write func()) *Writer { return &Writer{write: write} }

// Request makes the Writer write. It returns at once.
func (w *Writer) Request() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.again = true
	if w.idle == nil {
		w.idle = make(chan struct{})
		go w.run()
	}
}

// run writes until nothing is left to write.
func (w *Writer) run() {
	for {
		w.mu.Lock()
		if !w.again {
			close(w.idle)
			w.idle = nil
			w.mu.Unlock()
			return
		}
		w.again = false
		w.mu.Unlock()
		w.write()
	}
}

// Writing reports whether something is being written.
func (w *Writer) Writing() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.idle != nil
}

// Wait waits until nothing is left to write. It returns false if the time ends before.
func (w *Writer) Wait(end <-chan time.Time) bool {
	w.mu.Lock()
	idle := w.idle
	w.mu.Unlock()
	if idle == nil {
		return true
	}
	select {
	case <-idle:
		return true
	case <-end:
		return false
	}
}
