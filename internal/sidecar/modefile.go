package sidecar

import (
	"log/slog"

	"github.com/routesrv/routesrv/internal/durable"
	"github.com/routesrv/routesrv/rollout"
)

// maxModeFile limits the size of the file; a mode needs far less.
const maxModeFile = 4 << 10

// modeFile is a file with a mode as its content. Its few bytes are read each time, because the files of a mounted ConfigMap change when a
// symbolic link two folders up is moved, which does not reliably change the file's time or size. It is owned by the controller.
type modeFile struct {
	path string
	log  *slog.Logger

	last    string // what was last read, or the error
	problem string // why last is not a valid mode; empty if it is one
}

// read returns the mode in the file. ok is false if the file has no valid mode or has not changed. It logs each problem once.
func (f *modeFile) read() (set rollout.Setting, ok bool) {
	data, err := durable.ReadFile(f.path, maxModeFile)
	text := string(data)
	if err != nil {
		text = err.Error()
	}
	if text == f.last {
		return rollout.Setting{}, false
	}
	if f.last = text; err == nil {
		set, err = rollout.ParseSetting(text)
	}
	if f.problem = ""; err != nil {
		f.problem = err.Error()
		f.log.Error("mode file is not usable, the mode does not change (--mode-file)", "path", f.path, "error", err)
	}
	return set, err == nil
}
