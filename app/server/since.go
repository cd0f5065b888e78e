package server

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"syscall"
	"time"

	"github.com/routesrv/routesrv/internal/durable"
)

const (
	sinceFile  = "problems.json" // in the state folder: since when each problem has existed
	maxSince   = 64 << 20
	sinceEvery = 5 * time.Second
)

// logSince is the message about a file that cannot be used or written.
const logSince = "times of problems cannot be kept"

// rememberProblems passes on since when an earlier process knew problems.
func (s *Server) rememberProblems() {
	if s.compiler == nil || s.cfg.StateDir == "" {
		return
	}
	var since map[string]time.Time
	keptAs, err := durable.LoadChecked(filepath.Join(s.cfg.StateDir, sinceFile), maxSince, func(data []byte) error { return json.Unmarshal(data, &since) })
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) { // the last-known-good file reports the folder
		s.log.Warn(logSince, "error", err, "kept_as", keptAs)
	}
	s.onDisk = since
	s.compiler.Remember(since)
}

// keepProblems writes the start times of problems whenever they change, until the context ends.
func (s *Server) keepProblems(ctx context.Context) {
	if s.compiler == nil || s.cfg.StateDir == "" {
		return
	}
	write := func() {
		if s.compiler.Latest() == nil {
			return // nothing was read yet
		}
		since := make(map[string]time.Time)
		for _, p := range s.compiler.Problems() {
			since[p.ID()] = p.Since.UTC()
		}
		if maps.Equal(since, s.onDisk) {
			return
		}
		text, err := json.Marshal(since)
		if err == nil {
			err = durable.WriteChecked(filepath.Join(s.cfg.StateDir, sinceFile), text)
		}
		if s.onDisk = since; err != nil { // the last-known-good file has an alert for failed writes
			s.log.Warn(logSince, "error", err)
		}
	}
	defer write()
	for tick := time.NewTicker(sinceEvery); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
			write()
		}
	}
}
