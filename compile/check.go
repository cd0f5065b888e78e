package compile

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/kube"
)

// Check gives the problems that an Ingress or RouteGroup would have in the snapshot, in the place of the object of its kind,
// namespace and name, or beside all others if there is none. They are those that [Compiler.Compile] would give: it is what is
// called. A Compiler that checks one object after the other, or compiles the snapshot in between, does each time what differs
// from the call before; the first costs a full compilation. An object of another kind has no problems of its own here.
func (c *Compiler) Check(s *kube.Snapshot, o kube.Object) []Problem {
	with := *s
	switch o := o.(type) {
	case *kube.Ingress:
		with.Ingresses = withObject(s.Ingresses, o)
	case *kube.RouteGroup:
		with.RouteGroups = withObject(s.RouteGroups, o)
	default:
		return nil
	}
	return slices.Clone(c.Compile(&with).ProblemsOf(o.Ref()))
}

// withObject puts an object in the place of the one of its name, or at the end.
func withObject[T kube.Object](list []T, o T) []T {
	if at := slices.IndexFunc(list, func(other T) bool { return other.Ref() == o.Ref() }); at >= 0 {
		list = slices.Clone(list)
		list[at] = o
		return list
	}
	return append(slices.Clip(list), o)
}

// BadObject gives the problem of an object that could not be decoded.
func BadObject(b kube.BadObject) Problem {
	p := Problem{Owner: b.Ref, Reason: Undecodable, Severity: Error, Plain: true, Message: b.Err.Error()}
	if e := (*json.UnmarshalTypeError)(nil); errors.As(b.Err, &e) && e.Field != "" {
		p.detail = fmt.Sprintf("the field %s is %s and has to be %s, so nothing of the object is served",
			strings.Trim(e.Field, "."), withArticle(e.Value), wantedType(e.Type))
	}
	return p
}

// withArticle is what stands in a text of JSON, as the decoder calls it: "number 5", "string", "array".
func withArticle(value string) string {
	switch {
	case value == "bool":
		return "true or false"
	case strings.HasPrefix(value, "a"), strings.HasPrefix(value, "o"):
		return "an " + value
	}
	return "a " + value
}

// wantedType is a type in the words of who writes YAML.
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
