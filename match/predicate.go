package match

import (
	"fmt"
	"math"
	"net/textproto"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/internal/catalogue"
)

// verdict is the value of a predicate. The verdict of several predicates is the lowest.
type verdict int8

const (
	no verdict = iota
	maybe
	yes
)

func verdictOf(b bool) verdict {
	if b {
		return yes
	}
	return no
}

// condition is a predicate prepared for evaluation.
type condition struct {
	source *eskip.Predicate // nil for predicates with their own field, which name and args describe
	name   string
	args   [2]string // only headers use the second one

	test    func(*request) verdict
	why     string      // why test may return maybe
	chance  float64     // probability of a maybe; negative if unknown
	segment *[2]float64 // for a TrafficSegment
}

// String returns the predicate as it is written in a route.
func (c *condition) String() string {
	if c.source != nil {
		return c.source.String()
	}
	r := &eskip.Route{BackendType: eskip.ShuntBackend}
	switch c.name {
	case "Host":
		r.HostRegexps = c.args[:1]
	case "PathRegexp":
		r.PathRegexps = c.args[:1]
	case "Method":
		r.Method = c.args[0]
	case "Header":
		r.Headers = map[string]string{c.args[0]: c.args[1]}
	case "HeaderRegexp":
		r.HeaderRegexps = map[string][]string{c.args[0]: c.args[1:]}
	}
	text, backend := eskip.AppendExpr(nil, r)
	return strings.TrimSuffix(string(text[:backend]), " -> ")
}

// constructor builds the condition of a predicate, or returns an error about the arguments.
type constructor func(b *builder, args []any) (condition, error)

// constructors returns the constructor of a predicate that is not built into the matcher, or nil for a name that Skipper does not
// know.
func constructors(name string) constructor {
	switch name {
	case "True":
		return constant(yes)
	case "False":
		return constant(no)
	case "Shutdown":
		return newShutdown
	case "HostAny":
		return newHostAny
	case "Methods":
		return newMethods
	case "Cookie":
		return newCookie
	case "QueryParam":
		return newQueryParam
	case "Source", "SourceFromLast", "ClientIP":
		return newSource(name)
	case "Traffic":
		return newTraffic
	case "TrafficSegment":
		return newTrafficSegment
	case "Before", "After", "Between":
		return newPeriod(name)
	case "Cron":
		return newCron
	case "JWTPayloadAnyKV", "JWTPayloadAllKV", "JWTPayloadAnyKVRegexp", "JWTPayloadAllKVRegexp":
		return newJWT(strings.Contains(name, "All"), strings.HasSuffix(name, "Regexp"))
	case "HeaderSHA256":
		return newHeaderSHA256
	case "ForwardedHost":
		return newForwardedHost
	case "ForwardedProtocol":
		return newForwardedProtocol
	case "ContentLengthBetween":
		return newContentLength
	case "OTelBaggage":
		return newBaggage
	case "Tee":
		return newTee
	}
	return nil
}

func constant(v verdict) constructor {
	return func(*builder, []any) (condition, error) {
		return condition{test: func(*request) verdict { return v }}, nil
	}
}

func newShutdown(_ *builder, args []any) (condition, error) {
	return condition{
		test: func(*request) verdict { return maybe }, chance: -1,
		why: "holds only in a proxy that is shutting down",
	}, arity(args, 0, 0)
}

// arity checks the number of arguments; a negative most means no limit.
func arity(args []any, least, most int) error {
	if len(args) < least || most >= 0 && len(args) > most {
		return fmt.Errorf("%d arguments: want %s", len(args), catalogue.ArityText(least, most))
	}
	return nil
}

// texts returns the arguments of a predicate that accepts only strings.
func texts(args []any, least, most int) ([]string, error) {
	if err := arity(args, least, most); err != nil {
		return nil, err
	}
	all := make([]string, len(args))
	for i, a := range args {
		s, ok := a.(string)
		if !ok {
			return nil, fmt.Errorf("argument %d is %v: want a string", i+1, a)
		}
		all[i] = s
	}
	return all, nil
}

// number converts a numeric argument. Routes created by programs may have ints.
func number(a any) (float64, bool) {
	switch n := a.(type) {
	case float64:
		return n, !math.IsNaN(n)
	case int:
		return float64(n), true
	}
	return 0, false
}

// numbers returns the arguments of a predicate that accepts only numbers.
func numbers(args []any, least, most int) ([]float64, error) {
	if err := arity(args, least, most); err != nil {
		return nil, err
	}
	all := make([]float64, len(args))
	for i, a := range args {
		n, ok := number(a)
		if !ok {
			return nil, fmt.Errorf("argument %d is %q: want a number", i+1, a)
		}
		all[i] = n
	}
	return all, nil
}

// headers builds the condition of all Header or all HeaderRegexp predicates whose names differ only in case. If there are several
// spellings, the reference keeps an arbitrary one.
func (b *builder) headers(spellings []string, of func(spelling string) ([]func(string) bool, error)) (func(*request) verdict, error) {
	key := textproto.CanonicalMIMEHeaderKey(spellings[0])
	if len(spellings) == 1 {
		tests, err := of(spellings[0])
		return func(r *request) verdict {
			for _, test := range tests {
				if !slices.ContainsFunc(r.header[key], test) {
					return no
				}
			}
			return yes
		}, err
	}
	var alternatives [][]func(string) bool
	for _, s := range spellings {
		tests, err := of(s)
		if err != nil {
			return nil, err
		}
		alternatives = append(alternatives, tests)
	}
	return func(r *request) verdict {
		lines := r.header[key]
		every, some := true, false
		for _, tests := range alternatives {
			holds := true
			for _, test := range tests {
				holds = holds && slices.ContainsFunc(lines, test)
			}
			every, some = every && holds, some || holds
		}
		switch {
		case every:
			return yes
		case some:
			return maybe
		}
		return no
	}, nil
}
