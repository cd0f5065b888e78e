// Package audit records the decisions about held tables in a file: when a table was held, when and how it was released, who
// accepted it and why.
//
// The file has one JSON object a line, in the order of the decisions. [Log.Append] never waits for the disk and never fails: a
// goroutine that runs while entries are pending writes them, with one write and one sync for each line. It reports errors to the
// function passed to [Open]. The last entries are also kept in memory, so that /status does not wait for the disk.
//
// # The file
//
// It has mode 0600 and grows to 1 MiB; then it is renamed with the suffix ".1", which replaces the previous old file. If a crash
// truncated the last line, the next write first ends that line. Readers skip such lines and everything else that is not an entry.
// Texts are made printable and truncated, so that they cannot break a line or affect a terminal.
//
// # What it does not do
//
// It is a record, not a proof: the names are not verified, and everyone with write access to the folder can change the file.
// Entries that are not written when the process ends are lost; [Log.Flush] waits for them.
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
	maxKept    = 100     // entries kept in memory
	maxPending = 256     // entries waiting for the disk
)

// ErrBehind reports that an entry was dropped because too many are waiting for the disk.
var ErrBehind = errors.New("too many entries wait for the disk")

// What is a kind of decision.
type What string

// The decisions.
const (
	Held     What = "held"     // a table was held back
	Released What = "released" // it was published because every read agreed for the time of the hold
	Accepted What = "accepted" // it was published because an operator accepted it
)

// Entry is one decision.
type Entry struct {
	Time   time.Time    `json:"time"`
	What   What         `json:"what"`
	Digest table.Digest `json:"digest"`           // of the table
	Reason string       `json:"reason,omitempty"` // why it was held
	By     string       `json:"by,omitempty"`     // who accepted it, according to the operator
	Why    string       `json:"why,omitempty"`    // the reason, according to the operator
}

// Log is the record of decisions. All methods are safe for concurrent use.
type Log struct {
	path   string
	failed func(error)

	mu      sync.Mutex
	last    []Entry       // newest last
	pending []Entry       // waiting to be written
	idle    chan struct{} // closed when nothing is left to write; nil while nothing is being written
}

// Open reads the last entries of the file at path and of its predecessor. A missing file counts as empty; the first entry creates
// it. With an empty path, entries are kept in memory only. Open and later writes report disk errors to failed, possibly from
// several goroutines.
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
	// Shown is how many decisions /status shows.
	Shown = 20
	// closeWait limits how long Close waits for the disk.
	closeWait = 5 * time.Second
)

// InFolder is [Open] for a file in a folder. Without a folder, entries are kept in memory only. Errors are logged.
func InFolder(folder string, log *slog.Logger) *Log {
	path := ""
	if folder != "" {
		path = filepath.Join(folder, FileName)
	}
	return Open(path, func(err error) { log.Error("file of decisions", "path", path, "error", err) })
}

// Close waits up to closeWait for pending entries to be written. Call it when the process ends.
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

// write writes the pending entries and returns when none is left.
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

// Last returns up to n entries, newest first, and at most 100.
func (l *Log) Last(n int) []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Entry, 0, max(0, min(n, len(l.last))))
	for i := len(l.last) - 1; i >= 0 && len(out) < n; i-- {
		out = append(out, l.last[i])
	}
	return out
}

// Flush waits until every entry has been written or has failed, or ctx ends.
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
