package dataplane

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// sayAgain is how long a message with the same cause is not logged again: a server can cause events several times a second,
// indefinitely.
const sayAgain = 5 * time.Minute

// said logs recurring messages: the first time, whenever the cause is new, and then once in sayAgain with the number of
// occurrences since. The others go to the debug log. It is safe for concurrent use.
type said struct {
	log  *slog.Logger
	mu   sync.Mutex
	last map[saying]*utterance // guarded by mu; few messages and causes
}

// saying is a message with its cause, from a small fixed set.
type saying struct{ message, cause string }

type utterance struct {
	at      time.Time
	skipped int
}

func newSaid(log *slog.Logger) *said { return &said{log: log, last: make(map[saying]*utterance)} }

func (s *said) say(level slog.Level, message, cause string, attrs ...any) {
	now := time.Now()
	key := saying{message, cause}
	s.mu.Lock()
	u := s.last[key]
	if u == nil {
		u = &utterance{}
		s.last[key] = u
	}
	skip := !u.at.IsZero() && now.Sub(u.at) < sayAgain
	skipped := u.skipped
	if skip {
		u.skipped++
		level = slog.LevelDebug
	} else {
		u.at, u.skipped = now, 0
	}
	s.mu.Unlock()
	if !skip && skipped > 0 {
		attrs = append(attrs, "left_out", skipped)
	}
	s.log.Log(context.Background(), level, message, attrs...)
}
