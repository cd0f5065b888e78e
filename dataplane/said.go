package dataplane

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// sayAgain is how long a message about the same cause is not said again: a server can make things happen several times a
// second, for as long as it likes.
const sayAgain = 5 * time.Minute

// said logs what can happen again and again: at first, and whenever its cause is a new one, and then once in sayAgain
// with the number of times since. What is left out goes to the debug log. It is safe for concurrent use.
type said struct {
	log  *slog.Logger
	mu   sync.Mutex
	last map[saying]*utterance // guarded by mu; of few messages and few causes
}

// saying is a message with its cause, which is of a small fixed set.
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
