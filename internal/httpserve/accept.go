package httpserve

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/table"
)

// Limits of an acceptance.
const (
	maxBy         = 200  // characters
	maxWhy        = 1000 // characters
	maxAcceptance = 32 << 10
)

// digestHelp tells the operator how to get the digest.
const digestHelp = "say which table you accept, as digest=DIGEST: GET /guard/held shows it with its digest"

type errorReport struct {
	Error string `json:"error"`
	// Held and Reason describe the table that is held, when the error is about another table.
	Held   string     `json:"held,omitempty"`
	Reason guard.Code `json:"reason,omitempty"`
}

// acceptance is the body of the answer to an acceptance.
type acceptance struct {
	Digest table.Digest `json:"digest"` // of the table that is now served
	Routes int          `json:"routes"`
	By     string       `json:"by,omitempty"`
	Why    string       `json:"why,omitempty"`
	At     time.Time    `json:"at"`
}

// Accept publishes the table that a guard holds back. Only an operator can reach the loopback interface of the pod, with kubectl
// port-forward or exec; requests from elsewhere are refused.
//
// The parameter digest names the table that the operator looked at, so that nobody accepts another table by accident. The
// optional parameters by and why record who decided and for what reason; they are not verified. The errors of accept come from
// package guard.
func Accept(accept func(guard.Acceptance) (*table.Table, error), log *slog.Logger) http.Handler {
	return http.NewCrossOriginProtection().Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !FromLoopback(r) {
			WriteJSON(w, http.StatusForbidden, errorReport{Error: "only from the loopback interface: use kubectl port-forward or exec"})
			return
		}
		a, err := ReadAcceptance(w, r)
		if err != nil {
			WriteJSON(w, http.StatusBadRequest, errorReport{Error: err.Error()})
			return
		}
		t, err := accept(a)
		if err != nil {
			refuse(w, err)
			return
		}
		log.Warn("held table accepted by an operator", "remote", r.RemoteAddr, "hash", t.Digest().String(), "by", a.By, "why", a.Why)
		WriteJSON(w, http.StatusOK, acceptance{Digest: t.Digest(), Routes: t.Len(), By: a.By, Why: a.Why, At: time.Now().UTC()})
	}))
}

// refuse maps an error of accept to an HTTP answer.
func refuse(w http.ResponseWriter, err error) {
	report, status := errorReport{Error: err.Error()}, http.StatusInternalServerError
	if held, ok := errors.AsType[*guard.HeldError](err); ok {
		report.Held, report.Reason = held.Digest.String(), held.Reason
	}
	switch {
	case errors.Is(err, guard.ErrNothingHeld), errors.Is(err, guard.ErrNotHeld):
		status = http.StatusConflict
	case errors.Is(err, guard.ErrNoDigest):
		status = http.StatusBadRequest
	}
	WriteJSON(w, status, report)
}

// ReadAcceptance reads the parameters digest, by and why from the query or a form. It reads a bounded number of bytes of the
// form. The error says which parameter is missing or wrong.
func ReadAcceptance(w http.ResponseWriter, r *http.Request) (a guard.Acceptance, err error) {
	r.Body = http.MaxBytesReader(w, r.Body, maxAcceptance)
	err = r.ParseForm() // parse the query and simple forms first: ParseMultipartForm hides this error for forms that are not multipart
	if err == nil {
		err = r.ParseMultipartForm(maxAcceptance)
	}
	if err != nil && !errors.Is(err, http.ErrNotMultipart) {
		return a, fmt.Errorf("read the form: %w", err)
	}
	text := r.Form.Get("digest")
	if text == "" {
		return a, errors.New(digestHelp)
	}
	if a.Digest, err = table.ParseDigest(text); err != nil {
		return a, fmt.Errorf("digest: %w", err)
	}
	if a.Digest.IsZero() {
		return a, errors.New(digestHelp)
	}
	a.By, a.Why = r.Form.Get("by"), r.Form.Get("why")
	if err := checkText("by", a.By, maxBy); err != nil {
		return a, err
	}
	return a, checkText("why", a.Why, maxWhy)
}

// checkText rejects a text that is too long or not printable in one line of a log.
func checkText(name, text string, limit int) error {
	switch n := utf8.RuneCountInString(text); {
	case n > limit:
		return fmt.Errorf("%s: %d characters, limit %d", name, n, limit)
	case !utf8.ValidString(text), strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("%s: want printable characters in one line", name)
	}
	return nil
}

// FromLoopback checks the address of the peer and the Host header of the request. The Host check stops DNS rebinding: a page in
// the operator's browser whose name resolves to the loopback address is not the operator.
func FromLoopback(r *http.Request) bool {
	peer, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil || !net.ParseIP(peer).IsLoopback() {
		return false
	}
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = strings.Trim(r.Host, "[]") // no port
	}
	return strings.EqualFold(host, "localhost") || net.ParseIP(host).IsLoopback()
}

// AcceptAddress returns the host and port under which the client reaches this listener by a loopback name, which an acceptance
// requires. It does not know a port-forward's local port if that differs.
func AcceptAddress(r *http.Request) string {
	port := "PORT"
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		if _, p, err := net.SplitHostPort(local.String()); err == nil {
			port = p
		}
	}
	return net.JoinHostPort("localhost", port)
}
