package wire

import (
	"encoding/json"
	"fmt"
	"time"
)

// Names of the events of a stream.
const (
	EventDelta     = "delta"     // a delta to the table that the id names
	EventTable     = "table"     // the full table that the id names
	EventFetch     = "fetch"     // the client is to fetch the table that the id names
	EventCurrent   = "current"   // the stream has brought the client to the table that the id names; see Current
	EventReconnect = "reconnect" // the server ends the stream; see FormatReconnect
)

// Events returns the names of all events.
func Events() []string {
	return []string{EventDelta, EventTable, EventFetch, EventCurrent, EventReconnect}
}

// Current is the data of EventCurrent.
type Current struct {
	Revision   uint64 `json:"revision"` // of the table that the client has now
	Count      int    `json:"count"`    // of its routes
	SourceRead string `json:"source_read,omitempty"`
	State      string `json:"state,omitempty"`
}

// String returns the JSON form, on one line.
func (c Current) String() string {
	data, err := json.Marshal(c)
	if err != nil {
		panic(err) // numbers and plain texts
	}
	return string(data)
}

// ParseCurrent reads the JSON form. It ignores the revision and the number of routes: the id of the event names the table. read
// is FormatTime's, and state any text: see [ParseTime] and [ParseState].
func ParseCurrent(data string) (read, state string, err error) {
	var c struct {
		SourceRead string `json:"source_read"`
		State      string `json:"state"`
	}
	err = json.Unmarshal([]byte(data), &c)
	return c.SourceRead, c.State, err
}

// FormatReconnect returns the data of EventReconnect, which asks the client to come back after a time, in whole milliseconds.
func FormatReconnect(after time.Duration) string {
	return fmt.Sprintf(`{"after_ms":%d}`, after.Milliseconds())
}

// ParseReconnect returns the time to come back after: 0 to 2^32 ms, and 0 if the data gives none.
func ParseReconnect(data string) time.Duration {
	var advice struct {
		AfterMS uint32 `json:"after_ms"`
	}
	_ = json.Unmarshal([]byte(data), &advice) // what does not parse is no advice
	return time.Duration(advice.AfterMS) * time.Millisecond
}
