package sidecar

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/routesrv/routesrv/internal/durable"
	"github.com/routesrv/routesrv/rollout"
)

// modeFileInterval is how often the mode file is read. Its few bytes are read each time, because the files of a mounted ConfigMap
// change when a symbolic link two folders up is moved, which does not reliably change the file's time or size.
const modeFileInterval = time.Second

// maxModeFile limits the size of the file; a mode needs far less.
const maxModeFile = 4 << 10

// modeFile is a file with a mode as its content.
type modeFile struct {
	path  string
	log   *slog.Logger
	poked chan struct{}

	mu   sync.Mutex
	last string // what was last read, or the error; guarded by mu
	err  error  // why last is not a valid mode; guarded by mu
}

func newModeFile(path string, log *slog.Logger) *modeFile {
	return &modeFile{path: path, log: log, poked: make(chan struct{}, 1)}
}

// poke requests an immediate read.
func (f *modeFile) poke() {
	select {
	case f.poked <- struct{}{}:
	default:
	}
}

// read returns the mode in the file. ok is false if the file has no valid mode or has not changed. It logs each problem once.
func (f *modeFile) read() (rollout.Setting, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	data, err := durable.ReadFile(f.path, maxModeFile)
	text := string(data)
	if err != nil {
		text = err.Error()
	}
	if text == f.last {
		return rollout.Setting{}, false
	}
	f.last = text
	var set rollout.Setting
	if err == nil {
		set, err = rollout.ParseSetting(text)
	}
	if f.err = err; err != nil {
		f.log.Error("mode file is not usable, the mode does not change (--mode-file)", "path", f.path, "error", err)
		return rollout.Setting{}, false
	}
	return set, true
}

// problem says why the file has no valid mode; empty if it has one.
func (f *modeFile) problem() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		return ""
	}
	return f.err.Error()
}

// watch reads the file until ctx ends and passes changes to set.
func (f *modeFile) watch(ctx context.Context, set func(rollout.Setting)) {
	ticker := time.NewTicker(modeFileInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-f.poked:
		}
		if s, ok := f.read(); ok {
			set(s)
		}
	}
}
