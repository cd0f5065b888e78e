package rules

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/kube"
)

// Severity is the importance of a problem. The zero value is [Info].
type Severity uint8

// The severities.
const (
	Info    Severity = iota // worth knowing; nothing requested was lost
	Warning                 // something will not work as its author intended
	Error                   // an object or one of its routes was left out, or has lost a part
)

var severities = []string{"info", "warning", "error"}

// String returns "info", "warning" or "error".
func (s Severity) String() string { return severities[s] }

// MarshalText implements [encoding.TextMarshaler].
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *Severity) UnmarshalText(text []byte) error {
	at := slices.Index(severities, string(text))
	if at < 0 {
		return fmt.Errorf("severity %q: must be one of %s", text, strings.Join(severities, ", "))
	}
	*s = Severity(at)
	return nil
}

// Problem is one finding about one object, usually a route that was left out.
type Problem struct {
	Owner    kube.Ref `json:"owner"`
	Route    string   `json:"route,omitempty"` // id of the route, if the problem is about one
	Reason   Reason   `json:"reason"`
	Severity Severity `json:"severity"`
	// Message is the text that the reference logs. If there is none, it is the text of Detail.
	Message string `json:"message"`
	// Cause is what the reference logs in the field error.
	Cause string `json:"cause,omitempty"`
	// Plain marks a message that the reference logs without the name of the object.
	Plain bool `json:"-"`

	// Detail tells the application team what is wrong, without a full stop. If empty, the message is used.
	Detail string `json:"-"`
	// Do tells the team what to do, if the reason has no suitable advice: see [Problem.Advice].
	Do string `json:"-"`
	// About is the subject of the problem, if the message can change while the problem stays.
	About string `json:"-"`
}

// String returns the message after the owner.
func (p Problem) String() string {
	s := fmt.Sprintf("%s: %s: %s", p.Severity, p.Owner, p.Message)
	if p.Cause != "" {
		s += ": " + p.Cause
	}
	return s
}

// Line is String with what the message of the reference does not say.
func (p Problem) Line() string {
	if p.Detail == "" || p.Detail == p.Message {
		return p.String()
	}
	return fmt.Sprintf("%s (%s)", p, p.Detail)
}

// What tells the application team what is wrong: a sentence without a full stop, with the names used in the object.
func (p Problem) What() string {
	if p.Detail != "" {
		return p.Detail
	}
	message := strings.ReplaceAll(p.Message, "\n", "; ")
	if p.Cause != "" {
		message += ": " + p.Cause
	}
	return p.Reason.Info().Means + ": " + message
}

// Text tells the application team what is wrong and what to do, in full sentences.
func (p Problem) Text() string {
	text := p.What() + "."
	if do := p.Advice(); do != "" {
		text += " " + do
	}
	return text
}

// Advice tells the team what to do, in sentences; empty if there is nothing to do.
func (p Problem) Advice() string { return cmp.Or(p.Do, p.Reason.Info().Do) }

// ID identifies the problem on every replica and after every restart, whatever numbers in its text change.
func (p Problem) ID() string {
	h := sha256.New()
	parts := []string{string(p.Owner.Kind), p.Owner.Namespace, p.Owner.Name, string(p.Reason)}
	if p.About != "" {
		parts = append(parts, "about", p.About)
	} else {
		parts = append(parts, p.Route, p.Message, p.Cause)
	}
	for _, part := range parts {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}

// findings collects the problems of one object, each once.
type findings struct {
	owner kube.Ref
	size
	list []Problem
	seen map[Problem]struct{} // the problems of the list, those with a subject with their reason and subject alone
}

func (f *findings) add(p Problem) {
	p.Owner = f.owner
	identity := p
	if p.About != "" {
		identity = Problem{Reason: p.Reason, Severity: p.Severity, About: p.About}
	}
	if _, has := f.seen[identity]; has {
		return
	}
	f.size.say(len(p.Message) + len(p.Cause) + len(p.Detail))
	f.list = append(f.list, p)
	if f.seen == nil {
		f.seen = make(map[Problem]struct{})
	}
	f.seen[identity] = struct{}{}
}

func (f *findings) addf(p Problem, format string, args ...any) {
	p.Message = fmt.Sprintf(format, args...)
	f.add(p)
}

// ownf adds a problem that the reference does not have, with one text for operators and for the team.
func (f *findings) ownf(p Problem, format string, args ...any) {
	p.Message = fmt.Sprintf(format, args...)
	p.Detail = p.Message
	f.add(p)
}

func (f *findings) invalid(prefix string, err error) {
	f.add(Problem{
		Reason: InvalidObject, Severity: Error, Plain: true, Message: prefix + err.Error(),
		Detail: InvalidObject.Info().Means + ": " + strings.ReplaceAll(err.Error(), "\n", "; "),
	})
}

// Shortened limits a text in a message, which may repeat for each of thousands of routes.
func Shortened(text string) string {
	const most = 4 << 10
	if len(text) <= most {
		return text
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(text[:most], ""), len(text))
}

// BadObject returns the problem of an object that could not be decoded.
func BadObject(b kube.BadObject) Problem {
	p := Problem{Owner: b.Ref, Reason: Undecodable, Severity: Error, Plain: true, Message: b.Err.Error()}
	if e := (*json.UnmarshalTypeError)(nil); errors.As(b.Err, &e) && e.Field != "" {
		p.Detail = fmt.Sprintf("the field %s has to be %s (found: %s), so nothing of the object is served",
			strings.Trim(e.Field, "."), wantedType(e.Type), e.Value)
	}
	return p
}

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

func appendNulls(problems []Problem, owner kube.Ref, nulls kube.Nulls) []Problem {
	const most = 100 // of one object
	for i, place := range nulls[:min(len(nulls), most+1)] {
		message := "Ignoring null at " + place
		if i == most {
			message = fmt.Sprintf("Ignoring %d more nulls", len(nulls)-most)
		}
		problems = append(problems, Problem{Owner: owner, Reason: NullEntry, Severity: Warning, Message: message})
	}
	return problems
}
