package publish

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/internal/durable"
	"github.com/routesrv/routesrv/table"
)

// decisionOf returns a decision about entries of a list and a table.
func decisionOf(what string, t *table.Table, list keptList) api.Decision {
	return api.Decision{Time: time.Now().UTC().Truncate(time.Millisecond), What: what, Digest: t.Digest(), Objects: list.objects().names(), Reason: list[0].Reason}
}

const (
	// DecisionsFile is the name of the record of decisions in a state folder.
	DecisionsFile = "decisions.jsonl"
	// ShownDecisions is how many decisions /status shows.
	ShownDecisions = 20

	maxDecisions     = 500     // in memory and in the file
	maxDecisionsFile = 8 << 20 // more than that many need
)

// LogDecisionsFailed reports that the record of decisions could not be read or written. Nothing else depends on it.
const LogDecisionsFailed = "decisions.jsonl cannot be read or written"

// Decisions is the record of the last decisions. A file has one JSON object a line, in the order of the decisions; [Decisions.Append]
// never waits for the file and never fails: the whole file, which is small, is replaced in the background. The length of an
// operator's text is limited on receipt.
//
// It is a record, not a proof: the names are not verified, and everyone with write access to the folder can change the file.
// All methods are safe for concurrent use.
type Decisions struct {
	path   string // empty without a folder
	log    *slog.Logger
	writer *durable.Writer

	mu   sync.Mutex
	list []api.Decision // newest last
}

// OpenDecisions reads the record in a folder. An unusable file is moved away. Without a folder, or if the file cannot be moved,
// decisions are kept in memory only. Errors are logged.
func OpenDecisions(folder string, log *slog.Logger) *Decisions {
	d := &Decisions{log: log}
	d.writer = durable.NewWriter(d.write)
	if folder == "" {
		return d
	}
	d.path = filepath.Join(folder, DecisionsFile)
	keptAs, err := durable.Load(d.path, maxDecisionsFile, func(r io.Reader) error {
		data, err := io.ReadAll(r)
		d.list = parseDecisions(data)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) { // the last-known-good file reports the folder
		log.Error(LogDecisionsFailed, "path", d.path, "error", err, "kept_as", keptAs)
		if keptAs == "" {
			d.path = "" // do not replace a foreign file
		}
	}
	return d
}

// parseDecisions reads the lines of a file, and skips those that are not decisions.
func parseDecisions(data []byte) (list []api.Decision) {
	for line := range bytes.Lines(data) {
		var d api.Decision
		if json.Unmarshal(line, &d) == nil && d.What != "" {
			list = append(list, d)
		}
	}
	return list[max(0, len(list)-maxDecisions):]
}

// Append records a decision. It returns at once.
func (d *Decisions) Append(e api.Decision) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list = append(d.list, e)
	d.list = d.list[max(0, len(d.list)-maxDecisions):]
	if d.path != "" {
		d.writer.Request()
	}
}

// write replaces the file.
func (d *Decisions) write() {
	d.mu.Lock()
	list := slices.Clone(d.list)
	d.mu.Unlock()
	if err := durable.WriteFile(d.path, func(w io.Writer) error {
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		for _, e := range list {
			if err := enc.Encode(e); err != nil {
				return fmt.Errorf("decision of %s: %w", e.Digest, err)
			}
		}
		return nil
	}); err != nil {
		d.log.Error(LogDecisionsFailed, "path", d.path, "error", err)
	}
}

// Last returns up to n decisions, newest first.
func (d *Decisions) Last(n int) []api.Decision {
	d.mu.Lock()
	defer d.mu.Unlock()
	last := slices.Clone(d.list[max(0, len(d.list)-n):])
	slices.Reverse(last)
	return last
}

// Close waits some seconds for a write in progress. Call it when the process ends.
func (d *Decisions) Close() {
	if !d.writer.Wait(time.After(fileWait)) {
		d.log.Error(LogDecisionsFailed, "path", d.path, "error", "the disk takes too long")
	}
}
