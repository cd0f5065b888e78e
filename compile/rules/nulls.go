package rules

import (
	"fmt"

	"github.com/routesrv/routesrv/kube"
)

// appendNulls appends a problem for each null in the lists of an object.
func appendNulls(problems []Problem, owner kube.Ref, nulls kube.Nulls) []Problem {
	const most = 100 // of one object
	for i, place := range nulls {
		if i == most {
			return append(problems, Problem{
				Owner: owner, Reason: NullEntry, Severity: Warning, Message: fmt.Sprintf("Ignoring %d more nulls", len(nulls)-most),
			})
		}
		problems = append(problems, Problem{
			Owner: owner, Reason: NullEntry, Severity: Warning, Message: "Ignoring null at " + place,
		})
	}
	return problems
}
