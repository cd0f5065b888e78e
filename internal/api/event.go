package api

import (
	"encoding/json"
	"fmt"
	"time"
)

// Names of the events of a stream.
const (
	EventDelta     = "delta"     // a delta that leads to the table named by the id
	EventFetch     = "fetch"     // the client must fetch the table named by the id
	EventCurrent   = "current"   // the client now has the table named by the id; see Current
	EventReconnect = "reconnect" // the server ends the stream; see FormatReconnect
)

// Events returns the names of all events.
func Events() []string {
	return []string{EventDelta, EventFetch, EventCurrent, EventReconnect}
}

// Current is the data of EventCurrent.
type Current struct {
	Revision   uint64 `json:"revision"` // of the table that the client now has
	Count      int    `json:"count"`    // number of its routes
	SourceRead string `json:"source_read,omitempty"`
	State      string `json:"state,omitempty"`
}

// String returns the JSON form, on one line.
func (c Current) String() string {
	data, err := json.Marshal(c)
	if err != nil {
		panic(err) // cannot happen: numbers and plain texts
	}
	return string(data)
}

// ParseCurrent parses the JSON form. It ignores the revision and the number of routes, because the id of the event names the
// table. read is in the format of FormatTime, and state may be any text: see [ParseTime] and [ParseState].
func ParseCurrent(data string) (read, state string, err error) {
	var c struct {
		SourceRead string `json:"source_read"`
		State      string `json:"state"`
	}
	err = json.Unmarshal([]byte(data), &c)
	return c.SourceRead, c.State, err
}

// FormatReconnect returns the data of EventReconnect, which asks the client to reconnect after a time, in whole milliseconds.
func FormatReconnect(after time.Duration) string {
	return fmt.Sprintf(`{"after_ms":%d}`, after.Milliseconds())
}

// ParseReconnect returns the time after which to reconnect: 0 to 2^32 ms, and 0 if the data does not say.
func ParseReconnect(data string) time.Duration {
	var advice struct {
		AfterMS uint32 `json:"after_ms"`
	}
	_ = json.Unmarshal([]byte(data), &advice) // invalid data means no advice
	return time.Duration(advice.AfterMS) * time.Millisecond
}
