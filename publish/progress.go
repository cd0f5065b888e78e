package publish

import "time"

// Progress reports the state of a producer: a poller that reads a cluster, or a relay that asks another route server.
type Progress struct {
	// LastAttempt is when the last read or request started, and LastSuccess when the last successful one ended. Zero means never.
	LastAttempt time.Time `json:"last_attempt,omitzero"`
	LastSuccess time.Time `json:"last_success,omitzero"`
	// Failures counts the failed polls since the last success; LastError is the error of the last one.
	Failures  int    `json:"failures"`
	LastError string `json:"last_error,omitempty"`
	// FailedTotal counts all failed polls, EmptyTotal all that returned no routes.
	FailedTotal uint64 `json:"failed_total"`
	EmptyTotal  uint64 `json:"empty_total"`
	// Revision is the highest revision of the last successful read.
	Revision uint64 `json:"revision"`
	// NextAttempt is when the next read is due; a read requested by a client comes earlier.
	NextAttempt time.Time `json:"next_attempt,omitzero"`
	// Started is when Run began, Initialized when it first published or confirmed a table, Updated when it last published one.
	// Zero means never.
	Started     time.Time `json:"started,omitzero"`
	Initialized time.Time `json:"initialized,omitzero"`
	Updated     time.Time `json:"updated,omitzero"`
}
