package api

import (
	"time"

	"github.com/routesrv/routesrv/kube"
)

// Problems is the answer to GET /problems.
type Problems struct {
	Count    int       `json:"count"`
	Problems []Problem `json:"problems"`
}

// Problem is an object, or a route of it, that does not do what its team wants.
type Problem struct {
	ID       string    `json:"id"`
	Owner    kube.Ref  `json:"owner"`
	Route    string    `json:"route,omitempty"` // id of the route, if the problem is about one
	Reason   string    `json:"reason"`          // one of the reasons in docs/reference/problems.md
	Severity string    `json:"severity"`        // error, warning or info
	Message  string    `json:"message"`
	Cause    string    `json:"cause,omitempty"`
	Text     string    `json:"text"` // for the team that owns the object
	Since    time.Time `json:"since"`
	// Replicas are the replicas that see the problem, if not all do: in the merged answer of several.
	Replicas []string `json:"replicas,omitempty"`
}
