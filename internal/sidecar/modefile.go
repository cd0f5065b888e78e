package sidecar

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/routesrv/routesrv/internal/durable"
	"github.com/routesrv/routesrv/rollout"
)

// modeFileInterval is how often the mode file is read. It is read whole: the files of a mounted ConfigMap are replaced by
// moving a symbolic link two folders up, which no time and no size of a file shows with certainty. It is a few bytes.
const modeFileInterval = time.Second

// maxModeFile bounds the file, which a mode and a newline fit into many times.
const maxModeFile = 4 << 10

// modeFile is a file with a mode as its content.
type modeFile struct {
	path  string
	log   *slog.Logger
	poked chan struct{}

	mu   sync.Mutex
	last string // what was last read, or why it could not be; guarded by mu
	err  error  // why last is no mode; guarded by mu
}

func newModeFile(path string, log *slog.Logger) *modeFile {
	return &modeFile{path: path, log: log, poked: make(chan struct{}, 1)}
}

// poke asks for a read at once.
func (f *modeFile) poke() {
	select {
	case f.poked <- struct{}{}:
	default:
	}
}

// read gives the mode in the file. It reports false if there is none, or if the file is what it was. What is wrong is
// said once.
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
		f.log.Error("mode file is not usable, the mode stays as it is (--mode-file)", "path", f.path, "error", err)
		return rollout.Setting{}, false
	}
	return set, true
}

// problem says why the file has no mode; empty if it has one.
func (f *modeFile) problem() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		return ""
	}
	return f.err.Error()
}

// watch reads the file until ctx ends and hands on what is new in it.
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
