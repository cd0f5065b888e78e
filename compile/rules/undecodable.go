package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/routesrv/routesrv/kube"
)

// BadObject returns the problem of an object that could not be decoded.
func BadObject(b kube.BadObject) Problem {
	p := Problem{Owner: b.Ref, Reason: Undecodable, Severity: Error, Plain: true, Message: b.Err.Error()}
	if e := (*json.UnmarshalTypeError)(nil); errors.As(b.Err, &e) && e.Field != "" {
		p.Detail = fmt.Sprintf("the field %s has to be %s (found: %s), so nothing of the object is served",
			strings.Trim(e.Field, "."), wantedType(e.Type), e.Value)
	}
	return p
}

// wantedType describes a type in the words of YAML authors.
func wantedType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	}
	return "an object with fields"
}

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
