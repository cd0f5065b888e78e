// Package audit keeps what was decided about held tables in a file: when one was held, when and how it was released, and who
// accepted it for what reason.
//
// The file has one JSON object a line, in the order of the decisions. [Log.Append] never waits for the disk and never fails:
// entries are written by a goroutine that runs while there are any, one write and one sync for each line, and what goes wrong is told
// to the function that [Open] was given. The last entries are also in memory, so that a status does not wait for the disk either.
//
// # The file
//
// It has mode 0600 and grows to 1 MiB; then it is renamed to the same name with ".1" behind, in place of the one before. A line that a
// crash has cut is ended before the next one is written, and skipped by a reader, as is everything else that is no entry. Texts are
// made printable and cut to a length, so that no text breaks a line, or does something to a terminal.
//
// # What it does not do
//
// It is a record and no proof: nobody checks who says that he decided, and who can write the folder can change the file. Entries that
// are not written when the process ends are lost; [Log.Flush] waits for them.
package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/routesrv/routesrv/table"
)

const (
	maxBytes   = 1 << 20 // of the file
	maxKept    = 100     // entries in memory
	maxPending = 256     // entries that wait for the disk
)

// ErrBehind says that an entry is not written because too many wait for the disk.
var ErrBehind = errors.New("too many entries wait for the disk")

// What was decided.
type What string

// The decisions.
const (
	Held     What = "held"     // a table was held back
	Released What = "released" // it is served, because every read agreed for the time of the hold
	Accepted What = "accepted" // it is served, because an operator says so
)

// Entry is one decision.
type Entry struct {
	Time   time.Time    `json:"time"`
	What   What         `json:"what"`
	Digest table.Digest `json:"digest"`           // of the table
	Reason string       `json:"reason,omitempty"` // why it was held
	By     string       `json:"by,omitempty"`     // who accepted it, as the operator says
	Why    string       `json:"why,omitempty"`    // likewise
}

// Log is the record. All methods are safe for concurrent use.
type Log struct {
	path   string
	failed func(error)

	mu      sync.Mutex
	last    []Entry       // the newest at the end
	pending []Entry       // to be written
	idle    chan struct{} // closed when nothing is left to write; nil if nothing is written
}

// Open reads the last entries of the file at path and of the one before it. A file that does not exist is an empty one; it is
// created with the first entry. With an empty path entries are kept in memory only. failed is told what goes wrong with the disk, here and later; several goroutines may call it.
func Open(path string, failed func(error)) *Log {
	l := &Log{path: path, failed: failed}
	if path == "" {
		return l
	}
	entries, err := read(path)
	if err != nil {
		failed(fmt.Errorf("read decisions: %w", err))
	}
	l.last = entries[max(0, len(entries)-maxKept):]
	return l
}

const (
	// FileName is the name of the file in a folder.
	FileName = "decisions.jsonl"
	// Shown is how many decisions a status shows.
	Shown = 20
	// closeWait is how long Close waits for the disk.
	closeWait = 5 * time.Second
)

// InFolder is [Open] for a file in a folder; without a folder entries are kept in memory only. What goes wrong is logged.
func InFolder(folder string, log *slog.Logger) *Log {
	path := ""
	if folder != "" {
		path = filepath.Join(folder, FileName)
	}
	return Open(path, func(err error) { log.Error("file of decisions", "path", path, "error", err) })
}

// Close waits for the disk, but not for ever. It is for the end of a process.
func (l *Log) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	if err := l.Flush(ctx); err != nil {
		l.failed(err)
	}
}

// Append records a decision. It returns at once.
func (l *Log) Append(e Entry) {
	e = e.clean()
	if err := l.add(e); err != nil {
		l.failed(fmt.Errorf("write decision %q of %s: %w", e.What, e.Digest, err))
	}
}

func (l *Log) add(e Entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last = append(l.last, e); len(l.last) > maxKept {
		l.last = append([]Entry(nil), l.last[len(l.last)-maxKept:]...)
	}
	switch {
	case l.path == "":
		return nil
	case len(l.pending) >= maxPending:
		return ErrBehind
	}
	l.pending = append(l.pending, e)
	if l.idle == nil {
		l.idle = make(chan struct{})
		go l.write()
	}
	return nil
}

// write writes what waits, and ends when nothing does.
func (l *Log) write() {
	for {
		l.mu.Lock()
		if len(l.pending) == 0 {
			close(l.idle)
			l.idle = nil
			l.mu.Unlock()
			return
		}
		e := l.pending[0]
		l.pending = l.pending[1:]
		l.mu.Unlock()
		if err := appendLine(l.path, e.line()); err != nil {
			l.failed(fmt.Errorf("write decision %q of %s: %w", e.What, e.Digest, err))
		}
	}
}

// Last returns the last n entries, the newest first; fewer if there are fewer, and at most 100.
func (l *Log) Last(n int) []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Entry, 0, max(0, min(n, len(l.last))))
	for i := len(l.last) - 1; i >= 0 && len(out) < n; i-- {
		out = append(out, l.last[i])
	}
	return out
}

// Flush waits until all entries are written, or were tried to be, or ctx ends.
func (l *Log) Flush(ctx context.Context) error {
	l.mu.Lock()
	idle := l.idle
	l.mu.Unlock()
	if idle == nil {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("write decisions: %w", ctx.Err())
	}
}
