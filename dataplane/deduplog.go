package dataplane

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// logAgain is how long a message with the same cause is not logged again: a server can cause events several times a second,
// indefinitely.
const logAgain = 5 * time.Minute

// dedupLogger logs recurring messages: the first time, whenever the cause is new, and then once in logAgain with the number of
// occurrences since. The others go to the debug log. It is safe for concurrent use.
type dedupLogger struct {
	log  *slog.Logger
	mu   sync.Mutex
	last map[message]*logged // guarded by mu; few messages and causes
}

// message is a text with its cause, from a small fixed set.
type message struct{ text, cause string }

// logged is when a message was last logged above debug, and how often it occurred since.
type logged struct {
	at      time.Time
	skipped int
}

func newDedupLogger(log *slog.Logger) *dedupLogger {
	return &dedupLogger{log: log, last: make(map[message]*logged)}
}

// Log logs a message, at debug level if the same one with the same cause was logged lately.
func (d *dedupLogger) Log(level slog.Level, text, cause string, attrs ...any) {
	now := time.Now()
	key := message{text, cause}
	d.mu.Lock()
	l := d.last[key]
	if l == nil {
		l = &logged{}
		d.last[key] = l
	}
	skip := !l.at.IsZero() && now.Sub(l.at) < logAgain
	skipped := l.skipped
	if skip {
		l.skipped++
		level = slog.LevelDebug
	} else {
		l.at, l.skipped = now, 0
	}
	d.mu.Unlock()
	if !skip && skipped > 0 {
		attrs = append(attrs, "left_out", skipped)
	}
	d.log.Log(context.Background(), level, text, attrs...)
}
