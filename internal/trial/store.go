package trial

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"slices"
	"syscall"
	"time"

	"github.com/routesrv/routesrv/internal/durable"
)

// Limits of what is remembered.
const (
	maxKnown = 100_000 // verdicts; the oldest accepted ones go first
	maxFile  = 256 << 20
	fileWait = 5 * time.Second // for a write at the end
)

// stored is the content of the file.
type stored struct {
	Build    string    `json:"build"` // of the proxy
	Verdicts []Failure `json:"verdicts"`
}

// load reads the verdicts of an earlier process. A file that cannot be used is logged and set aside: then everything is tried again.
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
		t.known[v.Call] = v.Verdict
	}
}

// write replaces the file.
func (t *Trial) write() {
	if t.cfg.File == "" {
		return
	}
	s := t.remembered()
	if err := durable.WriteFile(t.cfg.File, func(w io.Writer) error { return json.NewEncoder(w).Encode(s) }); err != nil {
		t.log.Error(LogFile, "path", t.cfg.File, "error", err)
	}
}

// remembered returns the verdicts, without the oldest accepted ones if there are too many.
func (t *Trial) remembered() stored {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := stored{Build: t.build, Verdicts: make([]Failure, 0, len(t.known))}
	for c, v := range t.known {
		s.Verdicts = append(s.Verdicts, Failure{c, v})
	}
	slices.SortFunc(s.Verdicts, func(a, b Failure) int {
		if af, bf := a.Kind == Accepted, b.Kind == Accepted; af != bf {
			return boolRank(af) - boolRank(bf)
		}
		return b.At.Compare(a.At)
	})
	for _, old := range s.Verdicts[min(len(s.Verdicts), maxKnown):] {
		delete(t.known, old.Call)
	}
	s.Verdicts = s.Verdicts[:min(len(s.Verdicts), maxKnown)]
	return s
}

// flush waits some seconds for a write in progress.
func (t *Trial) flush() {
	if !t.writer.Wait(time.After(fileWait)) {
		t.log.Error(LogFile, "path", t.cfg.File, "error", "the disk takes too long")
	}
}
