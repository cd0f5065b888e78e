package httpserve

import (
	"log/slog"
	"maps"
	"os"
	"sync"
	"time"
)

// certificateCheck is how often a use of the value checks the files for changes.
const certificateCheck = time.Second

// Reloaded is a value made of the files of certificates and keys, which is made again when one of them has changed. If that fails, such
// as while only one file of a pair has been written, the previous value stays in use, and the next use tries again. It is safe for
// concurrent use.
type Reloaded[T any] struct {
	files []string
	load  func(CertificateEnds) (T, error)
	log   *slog.Logger

	mu      sync.Mutex // guards the fields below
	value   T
	ends    CertificateEnds // of the certificates in use
	state   map[string]fileState
	checked time.Time
	failed  string // the last failure that was logged
}

// fileState detects that a file was replaced or written.
type fileState struct {
	modified time.Time
	size     int64
}

// NewReloaded makes the value for the first time. load adds the expiry times of the certificates. Empty names of files are ignored.
func NewReloaded[T any](files []string, log *slog.Logger, load func(CertificateEnds) (T, error)) (*Reloaded[T], error) {
	r := &Reloaded[T]{files: files, load: load, log: log.With("component", "tls"), checked: time.Now()}
	return r, r.loadLocked()
}

// Current returns the value for the files as they are now.
func (r *Reloaded[T]) Current() T {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refreshLocked()
	return r.value
}

// Ends returns the expiry times of the certificates in use.
func (r *Reloaded[T]) Ends() CertificateEnds {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refreshLocked()
	return maps.Clone(r.ends)
}

func (r *Reloaded[T]) refreshLocked() {
	if time.Since(r.checked) < certificateCheck {
		return
	}
	if r.checked = time.Now(); maps.Equal(r.state, r.look()) {
		return
	}
	err := r.loadLocked()
	switch {
	case err == nil:
		r.failed = ""
		r.log.Info("certificates reloaded")
	case err.Error() != r.failed:
		r.failed = err.Error()
		r.log.Error("certificates changed and cannot be read, keeping the previous ones", "error", err)
	}
}

func (r *Reloaded[T]) loadLocked() error {
	state := r.look() // before reading, so that a change in between is noticed next time
	ends := make(CertificateEnds)
	value, err := r.load(ends)
	if err != nil {
		return err
	}
	r.value, r.state, r.ends = value, state, ends
	return nil
}

// look returns the state of the files.
func (r *Reloaded[T]) look() map[string]fileState {
	state := make(map[string]fileState)
	for _, name := range r.files {
		if info, err := os.Stat(name); name != "" && err == nil {
			state[name] = fileState{info.ModTime(), info.Size()}
		}
	}
	return state
}
