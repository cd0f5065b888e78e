package trial

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"slices"
	"syscall"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/internal/durable"
)

// Limits of what is remembered.
const (
	maxKnown      = 100_000  // verdicts; the oldest accepted ones are dropped first, then the oldest refused ones
	maxKnownBytes = 64 << 20 // and their texts
	maxFile       = 256 << 20
	fileWait      = 5 * time.Second // for a write at the end
)

type stored struct {
	Build    string             `json:"build"`    // of the proxy
	Verdicts []api.TrialFailure `json:"verdicts"` // also those that accept a call
}

// load reads the verdicts of an earlier process. An unusable file is logged and set aside.
func (t *Trial) load() {
	if t.cfg.File == "" {
		return
	}
	var s stored
	keptAs, err := durable.Load(t.cfg.File, maxFile, func(r io.Reader) error { return json.NewDecoder(r).Decode(&s) })
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) { // the last-known-good file reports the folder
			t.log.Error(LogFile, "path", t.cfg.File, "error", err, "kept_as", keptAs)
		}
		return
	}
	t.build = s.Build
	for _, v := range s.Verdicts {
		t.known[Call{v.Text, v.Predicate}] = Verdict{Result(v.Verdict), v.Words, v.At}
	}
}

func (t *Trial) write() {
	if t.cfg.File == "" {
		return
	}
	t.mu.Lock()
	s := t.verdicts()
	t.mu.Unlock()
	if err := durable.WriteFile(t.cfg.File, func(w io.Writer) error { return json.NewEncoder(w).Encode(s) }); err != nil {
		t.log.Error(LogFile, "path", t.cfg.File, "error", err)
	}
}

// verdicts returns all verdicts, those that are dropped first at the end. The caller holds mu.
func (t *Trial) verdicts() stored {
	s := stored{Build: t.build, Verdicts: make([]api.TrialFailure, 0, len(t.known))}
	for c, v := range t.known {
		s.Verdicts = append(s.Verdicts, resultOf(c, v))
	}
	rank := func(f api.TrialFailure) int { return slices.Index([]Result{Refused, Accepted}, Result(f.Verdict)) }
	slices.SortFunc(s.Verdicts, func(a, b api.TrialFailure) int { return cmp.Or(rank(a)-rank(b), b.At.Compare(a.At)) })
	return s
}

// trim drops verdicts if there are too many. The caller holds mu.
func (t *Trial) trim() {
	bytes := 0
	for c, v := range t.known {
		bytes += len(c.Text) + len(v.Words)
	}
	if len(t.known) <= maxKnown && bytes <= maxKnownBytes {
		return
	}
	kept := 0
	for i, v := range t.verdicts().Verdicts {
		if kept += len(v.Text) + len(v.Words); i >= maxKnown*9/10 || kept > maxKnownBytes*9/10 {
			delete(t.known, Call{v.Text, v.Predicate})
		}
	}
}

// flush waits a few seconds for a write in progress.
func (t *Trial) flush() {
	if !t.writer.Wait(time.After(fileWait)) {
		t.log.Error(LogFile, "path", t.cfg.File, "error", "the disk takes too long")
	}
}
