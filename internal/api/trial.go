package api

import (
	"time"

	"github.com/routesrv/routesrv/kube"
)

// Paths of the trial proxy, on the support listener.
const (
	PathTrialRoutes   = "/trial/routes"
	PathTrialAlive    = "/trial/alive"
	PathTrialFailures = "/trial/failures" // also on the main listener
)

// Trial describes the trial proxy of a route server, and what it tried.
type Trial struct {
	Build    string `json:"build,omitempty"`  // of the proxy
	Silent   string `json:"silent,omitempty"` // why the proxy does not answer
	Unused   bool   `json:"unused,omitempty"` // it takes no requests, so texts are loaded and not used
	Accepted int    `json:"accepted"`
	Waiting  int    `json:"waiting"`
	// Suspects were in a table that the proxy did not survive, and Lapsed pass because it does not answer; both are among Waiting.
	Suspects int            `json:"suspects"`
	Lapsed   int            `json:"lapsed"`
	Failed   []TrialFailure `json:"failed"`
}

// TrialFailure is a filter or predicate that failed its trial.
type TrialFailure struct {
	Text      string    `json:"text"` // such as compress(-1)
	Predicate bool      `json:"predicate,omitempty"`
	Verdict   string    `json:"verdict"`         // refused, died, hung, grew or blamed
	Words     string    `json:"words,omitempty"` // of the proxy, or what was seen
	At        time.Time `json:"at"`
}

// Takeover is what a change that was published took from another object.
type Takeover struct {
	At   time.Time `json:"at"`
	From kube.Ref  `json:"from"`
	To   kube.Ref  `json:"to"`
	// Lost is how many routes of From lost requests. Example is one of these requests, with both objects.
	Lost    int    `json:"lost"`
	Example string `json:"example"`
}
