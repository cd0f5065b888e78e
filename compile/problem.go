package compile

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/kube"
)

// Severity says how much a problem matters. The zero value is [Info].
type Severity uint8

// The severities.
const (
	Info    Severity = iota // worth knowing; nothing was lost that was asked for
	Warning                 // something will not do what its author meant
	Error                   // an object or one of its routes was left out, or has lost a part
)

var severities = []string{"info", "warning", "error"}

// String is "info", "warning" or "error".
func (s Severity) String() string { return severities[s] }

// MarshalText implements [encoding.TextMarshaler].
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *Severity) UnmarshalText(text []byte) error {
	at := slices.Index(severities, string(text))
	if at < 0 {
		return fmt.Errorf("severity %q: want one of %s", text, strings.Join(severities, ", "))
	}
	*s = Severity(at)
	return nil
}

// Problem is one finding about one object: mostly a route that was left out. Its JSON has neither id nor text: use [Problem.ID]
// and [Problem.Text].
type Problem struct {
	Owner    kube.Ref `json:"owner"`
	Route    string   `json:"route,omitempty"` // id of the route, if it is about one
	Reason   Reason   `json:"reason"`
	Severity Severity `json:"severity"`
	// Message is for operators: the text that the reference logs, where it has one.
	Message string `json:"message"`
	// Cause is what the reference logs beside its message, in the field error.
	Cause string `json:"cause,omitempty"`
	// Plain marks a message that the reference logs without naming the object.
	Plain bool `json:"-"`

	// detail says for the application team what is wrong, without a full stop. Empty means that the message has to do.
	detail string
	// about is what the problem is about, where the message may change while the problem stays.
	about string
}

// String names the owner before the message: for people and for the compile command.
func (p Problem) String() string {
	s := fmt.Sprintf("%s: %s: %s", p.Severity, p.Owner, p.Message)
	if p.Cause != "" {
		s += ": " + p.Cause
	}
	return s
}

// What says for the application team what is wrong: a sentence without a full stop, with the names that the object has.
func (p Problem) What() string {
	if p.detail != "" {
		return p.detail
	}
	message := strings.ReplaceAll(p.Message, "\n", "; ")
	if p.Cause != "" {
		message += ": " + p.Cause
	}
	return p.Reason.Info().Means + ": " + message
}

// Text says for the application team what is wrong and what to do about it, in full sentences.
func (p Problem) Text() string {
	text := p.What() + "."
	if do := p.Reason.Info().Do; do != "" {
		text += " " + do
	}
	return text
}

// ID names the problem: 12 hexadecimal digits that are the same on every replica and after every restart, for as long as the
// object has the problem. Numbers that change in its text do not change it.
func (p Problem) ID() string {
	h := sha256.New()
	parts := []string{string(p.Owner.Kind), p.Owner.Namespace, p.Owner.Name, string(p.Reason)}
	if p.about != "" {
		parts = append(parts, "about", p.about)
	} else {
		parts = append(parts, p.Route, p.Message, p.Cause)
	}
	for _, part := range parts {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}

// sortProblems orders by owner; the problems of one owner stay in the order in which they were found.
func sortProblems(ps []Problem) {
	slices.SortStableFunc(ps, func(a, b Problem) int { return a.Owner.Compare(b.Owner) })
}

// ProblemsOf gives the problems of one object, in the order in which they were found. The slice must not be changed. It costs
// O(log problems).
func (r *Result) ProblemsOf(owner kube.Ref) []Problem {
	compare := func(p Problem, o kube.Ref) int { return p.Owner.Compare(o) }
	from, found := slices.BinarySearchFunc(r.Problems, owner, compare)
	if !found {
		return nil
	}
	to := from
	for to < len(r.Problems) && r.Problems[to].Owner == owner {
		to++
	}
	return r.Problems[from:to:to]
}

// findings collects the problems of one object. The same finding is kept once, as the reference logs it once per
// object and load.
type findings struct {
	owner kube.Ref
	list  []Problem
}

func (f *findings) add(p Problem) {
	p.Owner = f.owner
	if !slices.Contains(f.list, p) {
		f.list = append(f.list, p)
	}
}

// addOnce adds a problem of which an object has one for whatever it is about.
func (f *findings) addOnce(p Problem) {
	if !slices.ContainsFunc(f.list, func(q Problem) bool { return q.Reason == p.Reason && q.about == p.about }) {
		f.add(p)
	}
}

func (f *findings) errorf(r Reason, format string, args ...any) {
	f.add(Problem{Reason: r, Severity: Error, Message: fmt.Sprintf(format, args...)})
}

func (f *findings) infof(r Reason, format string, args ...any) {
	f.add(Problem{Reason: r, Severity: Info, Message: fmt.Sprintf(format, args...)})
}

func (f *findings) warnf(r Reason, format string, args ...any) {
	f.add(Problem{Reason: r, Severity: Warning, Message: fmt.Sprintf(format, args...)})
}

// plainf adds an error that the reference logs without naming the object.
func (f *findings) plainf(r Reason, format string, args ...any) {
	f.add(Problem{Reason: r, Severity: Error, Message: fmt.Sprintf(format, args...), Plain: true})
}

// joinErrors is errors.Join for texts: one per line.
func joinErrors(errs []error) string {
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "\n")
}
