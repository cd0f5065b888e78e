package trial

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"

	"github.com/routesrv/routesrv/internal/durable"
)

// LogFileFailed says that verdicts are not kept over restarts.
const LogFileFailed = "file with the verdicts of trials is not usable"

// maxFile limits the file, in bytes.
const maxFile = 64 << 20

// saved is the content of the file.
type saved struct {
	Build    string    `json:"build"`
	Verdicts []Failure `json:"verdicts"`
}

// builds takes the build of the proxy. Verdicts about another one say nothing of it.
func (t *Trial) builds(s sign) {
	t.doc.mu.Lock()
	build := s.build + " " + t.doc.agent
	t.doc.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.build == build {
		return
	}
	if t.build != "" {
		clear(t.known)
	}
	t.build = build
}

// remember reads the verdicts of an earlier process.
func (t *Trial) remember() {
	if t.cfg.File == "" {
		return
	}
	var file saved
	keptAs, err := durable.Load(t.cfg.File, maxFile, func(r io.Reader) error { return json.NewDecoder(r).Decode(&file) })
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			t.log.Error(LogFileFailed, "path", t.cfg.File, "error", err, "kept_as", keptAs)
		}
		return
	}
	t.build = file.Build
	for _, v := range file.Verdicts[:min(len(file.Verdicts), maxKnown)] {
		t.known[v.Call] = v.Verdict
	}
}

// save writes the verdicts.
func (t *Trial) save() {
	if t.cfg.File == "" {
		return
	}
	t.mu.Lock()
	file := saved{Build: t.build, Verdicts: make([]Failure, 0, len(t.known))}
	for c, v := range t.known {
		file.Verdicts = append(file.Verdicts, Failure{c, v})
	}
	t.mu.Unlock()
	if err := durable.WriteFile(t.cfg.File, func(w io.Writer) error { return json.NewEncoder(w).Encode(file) }); err != nil {
		t.log.Error(LogFileFailed, "path", t.cfg.File, "error", err)
	}
}
