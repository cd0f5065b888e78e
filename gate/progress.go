package gate

import "time"

// Progress is how a producer gets on, for people and machines that ask: a poller that reads a cluster, or a relay that asks
// another route server.
type Progress struct {
	// LastAttempt and LastSuccess are when the last read or request started, and when the last successful one ended. Zero:
	// never.
	LastAttempt time.Time `json:"last_attempt,omitzero"`
	LastSuccess time.Time `json:"last_success,omitzero"`
	// Failures counts the polls that failed since the last success; LastError is what the last of them said.
	Failures  int    `json:"failures"`
	LastError string `json:"last_error,omitempty"`
	// FailedTotal counts all polls that failed, EmptyTotal all that gave no route.
	FailedTotal uint64 `json:"failed_total"`
	EmptyTotal  uint64 `json:"empty_total"`
	// Revision is that of the last successful read: the highest that it has seen.
	Revision uint64 `json:"revision"`
	// NextAttempt is when the next read is due; one that was asked for by a client comes earlier.
	NextAttempt time.Time `json:"next_attempt,omitzero"`
	// Started is when Run began, Initialized when it first published or confirmed a table, Updated when it last
	// published one. Zero: never.
	Started     time.Time `json:"started,omitzero"`
	Initialized time.Time `json:"initialized,omitzero"`
	Updated     time.Time `json:"updated,omitzero"`
}
