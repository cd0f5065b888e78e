package httpserve

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

// Limits of an acceptance.
const (
	maxBy  = 200  // characters
	maxWhy = 1000 // characters
)

// MaxForm limits the parameters of a command, in bytes.
const MaxForm = 256 << 10

// Accept publishes the table that a guard holds back, or releases kept objects. It answers only on the control socket. The
// parameter digest names what the operator looked at, so that a newer table is not accepted by accident; namespace and object,
// each possibly repeated, choose objects; why is kept with the decision, and so is by, the name that the peer gives for its user.
func Accept(accept func(publish.Acceptance) (*table.Table, error), log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peer, ok := PeerOf(r.Context())
		if !ok {
			WriteJSON(w, http.StatusForbidden, api.Error{Error: "only over the control socket"})
			return
		}
		a, err := readAcceptance(w, r)
		if err != nil {
			WriteJSON(w, http.StatusBadRequest, api.Error{Error: err.Error()})
			return
		}
		if a.By == "" {
			a.By = peer.String()
		}
		t, err := accept(a)
		if err != nil {
			refuse(w, err)
			return
		}
		log.Warn("held table accepted by an operator", "uid", peer.UID, "pid", peer.PID, "hash", t.Digest().String(), "by", a.By, "why", a.Why)
		WriteJSON(w, http.StatusOK, api.Accepted{Digest: t.Digest(), Routes: t.Len(), By: a.By, Why: a.Why, At: time.Now().UTC()})
	})
}

// AcceptEndpoint returns the endpoint of the control socket that accepts.
func AcceptEndpoint(accept func(publish.Acceptance) (*table.Table, error), log *slog.Logger) Endpoint {
	return Endpoint{
		Listener: ControlListener, Path: api.PathAccept, Methods: []string{http.MethodPost}, MaxBody: MaxForm, Handler: Accept(accept, log),
		Does: "publishes the held table, or releases kept objects: `digest=` names what you looked at; `namespace=` and `object=` choose some objects",
	}
}

func refuse(w http.ResponseWriter, err error) {
	report, status := api.Error{Error: err.Error()}, http.StatusInternalServerError
	if held, ok := errors.AsType[*publish.HeldError](err); ok {
		report.Held, report.Reason = held.Digest.String(), string(held.Reason)
	}
	switch {
	case errors.Is(err, publish.ErrNothingHeld), errors.Is(err, publish.ErrNotHeld), errors.Is(err, publish.ErrNotKept):
		status = http.StatusConflict
	case errors.Is(err, publish.ErrNoDigest):
		status = http.StatusBadRequest
	}
	WriteJSON(w, status, report)
}

// ReadForm reads the parameters of a command from the query or a form of at most [MaxForm] bytes.
func ReadForm(w http.ResponseWriter, r *http.Request) (url.Values, error) {
	r.Body = http.MaxBytesReader(w, r.Body, MaxForm)
	if err := r.ParseForm(); err != nil {
		return nil, fmt.Errorf("read the parameters: %w", err)
	}
	return r.Form, nil
}

// WordsOf returns the parameters by and why: who decided, and for what reason, as short texts in one line.
func WordsOf(form url.Values) (by, why string, err error) {
	by, why = strings.TrimSpace(form.Get("by")), form.Get("why")
	if err := checkText("by", by, maxBy); err != nil {
		return "", "", err
	}
	return by, why, checkText("why", why, maxWhy)
}

// readAcceptance reads the parameters of an acceptance. The error names the one that is missing or wrong.
func readAcceptance(w http.ResponseWriter, r *http.Request) (a publish.Acceptance, err error) {
	form, err := ReadForm(w, r)
	if err != nil {
		return a, err
	}
	if text := form.Get("digest"); text != "" {
		if a.Digest, err = table.ParseDigest(text); err != nil {
			return a, fmt.Errorf("digest: %w", err)
		}
	}
	if a.Digest.IsZero() {
		return a, errors.New("name the table that you accept, as digest=DIGEST: GET /guard/held shows the digest")
	}
	a.Namespaces = form["namespace"]
	for _, text := range form["object"] {
		ref, err := ParseRef(text)
		if err != nil {
			return a, err
		}
		a.Objects = append(a.Objects, ref)
	}
	a.By, a.Why, err = WordsOf(form)
	return a, err
}

// ParseRef parses the name of an object, such as Ingress/shop/cart.
func ParseRef(text string) (kube.Ref, error) {
	parts := strings.Split(text, "/")
	if len(parts) != 3 || parts[1] == "" || parts[2] == "" {
		return kube.Ref{}, fmt.Errorf("object %q: must be KIND/NAMESPACE/NAME, such as Ingress/shop/cart", text)
	}
	for _, kind := range []kube.Kind{kube.KindIngress, kube.KindRouteGroup, kube.KindService} {
		if strings.EqualFold(parts[0], string(kind)) {
			return kube.Ref{Kind: kind, Namespace: parts[1], Name: parts[2]}, nil
		}
	}
	return kube.Ref{}, fmt.Errorf("object %q: its kind must be Ingress, RouteGroup or Service", text)
}

// CheckWords rejects a text that is no short text in one line.
func CheckWords(name, text string) error { return checkText(name, text, maxWhy) }

// checkText rejects a text that is too long or not printable in one line of a log.
func checkText(name, text string, limit int) error {
	switch n := utf8.RuneCountInString(text); {
	case n > limit:
		return fmt.Errorf("%s: %d characters, limit %d", name, n, limit)
	case !utf8.ValidString(text), strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("%s: must be printable characters in one line", name)
	}
	return nil
}
