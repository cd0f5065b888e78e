package server

import (
	"net/http"
	"slices"

	"github.com/routesrv/routesrv/internal/api"
	"github.com/routesrv/routesrv/internal/httpserve"
)

// serveProblems lists the problems of objects, filtered by the query. An empty parameter selects problems without that value,
// such as problems without a namespace.
func (s *Server) serveProblems(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	chosen := func(parameter, value string) bool {
		return !query.Has(parameter) || slices.Contains(query[parameter], value)
	}
	problems := []api.Problem{}
	for _, p := range s.problems() {
		if chosen("namespace", p.Owner.Namespace) && chosen("kind", string(p.Owner.Kind)) && chosen("name", p.Owner.Name) &&
			chosen("reason", string(p.Reason)) && chosen("severity", p.Severity.String()) {
			problems = append(problems, p.Report())
		}
	}
	httpserve.WriteJSON(w, http.StatusOK, api.Problems{Count: len(problems), Problems: problems})
}
