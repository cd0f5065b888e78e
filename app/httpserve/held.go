package httpserve

import (
	"context"
	"encoding/json"
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
	"github.com/routesrv/routesrv/shadowdiff"
	"github.com/routesrv/routesrv/shadowdiff/page"
	"github.com/routesrv/routesrv/table"
)

// maxCompared is how many differing routes are parsed and listed.
const maxCompared = 5000

// Held is a table that is held back, together with the served one.
type Held struct {
	// Served is nil if no table is served yet. Table is never nil.
	Served, Table *table.Table
	State         publish.State
	Kept          []*publish.Kept      // objects; then Table is the newest one
	Owner         shadowdiff.OwnerFunc // finds the objects of routes; nil where only tables are known
}

// notHeld is the answer while no table is held.
const notHeld = "no table is held: what was read last is served, or nothing was read yet (GET /status)\n"

// HeldPage shows operators the table that a guard holds back, with its differences from the served one. It decides nothing, and does not check who asks: the
// routes of a held table are no more secret than the served ones.
//
// The two tables are compared by their blocks, and only routes that differ are parsed: the first 5,000 of them, by id. The others
// are counted. One request at a time compares. A request that waits for its turn or runs a comparison ends when its client goes away.
// It is safe for concurrent use.
type HeldPage struct {
	held    func() (Held, bool)
	command string
	turn    Turns // of one
}

// NewHeldPage returns the handler for GET /guard/held: the difference between the served and the held table by owner, with the
// reason, what the hold keeps, and the command that accepts the table in the pod. The form is text, a page or JSON, as [page.Handler]
// chooses. The JSON form has the hold as in /status (hold), that command (accept) and the comparison (difference). While no table is
// held, the answer is 404. held returns the held table, or false if there is none; it must be safe for concurrent use. The parameter
// accept is the command without its arguments, such as "routesrv accept".
func NewHeldPage(held func() (Held, bool), accept string) *HeldPage {
	return &HeldPage{held: held, command: accept, turn: NewTurns(1)}
}

// ServeHTTP implements [http.Handler].
func (h *HeldPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	form, ok := page.Negotiate(w, r)
	if !ok {
		return
	}
	held, view, err := h.compare(r.Context())
	var body []byte
	if err == nil && view != nil {
		body, err = h.render(form, held, view)
	}
	switch {
	case r.Context().Err() != nil: // the client is gone
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case view == nil:
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(notHeld))
	default:
		page.Send(w, form, body)
	}
}

// render prints a comparison in a form.
func (h *HeldPage) render(form page.Form, held Held, view *shadowdiff.View) ([]byte, error) {
	accept := h.command + " " + held.State.Digest.String() + " --why REASON"
	view.Notes = notes(held, "in the pod, with kubectl exec: "+accept)
	body, err := page.Render(form, view)
	if err == nil && form == page.JSON {
		hold := held.State.Report(held.Kept)
		body, err = json.MarshalIndent(api.HeldTable{Hold: &hold, Accept: accept, Difference: body}, "", "  ")
		body = append(body, '\n')
	}
	if err != nil {
		return nil, fmt.Errorf("print the comparison: %w", err)
	}
	return body, nil
}

// Difference returns the comparison for the table held now, without notes, or nil if no table is held. It waits for its turn as
// requests do. The error comes from ctx, or says why the tables could not be compared.
func (h *HeldPage) Difference(ctx context.Context) (*shadowdiff.View, error) {
	_, view, err := h.compare(ctx)
	return view, err
}

// compare waits for its turn and compares the held table with the served one. The view is nil if no table is held.
func (h *HeldPage) compare(ctx context.Context) (Held, *shadowdiff.View, error) {
	done, ok := h.turn.Wait(ctx, 0)
	if !ok {
		return Held{}, nil, ctx.Err()
	}
	defer done()
	held, ok := h.held()
	if !ok {
		return Held{}, nil, nil
	}
	report, err := shadowdiff.Tables(ctx, held.Served, held.Table, maxCompared)
	if err != nil {
		return Held{}, nil, err
	}
	served := shadowdiff.Side{Label: "served", Name: "nothing"}
	if held.Served != nil {
		served.Name, served.Revision = held.Served.Digest().String(), held.Served.Revision()
	}
	return held, &shadowdiff.View{
		Title: "Held table",
		A:     served, B: shadowdiff.Side{Label: "held", Name: held.Table.Digest().String(), Revision: held.Table.Revision()},
		Report: report, Owner: held.Owner,
	}, nil
}

// maxNoted is how many kept objects the notes name.
const maxNoted = 20

// notes describes the hold in words.
func notes(held Held, command string) []shadowdiff.Note {
	s := held.State
	all := []shadowdiff.Note{{Name: "reason", Text: string(s.Reason)}, {Name: "detail", Text: s.Detail}}
	for _, k := range held.Kept[:min(len(held.Kept), maxNoted)] {
		all = append(all, shadowdiff.Note{Name: "kept", Text: fmt.Sprintf("%s: served %s, %s waits", k.Ref, k.Served(), k.Waits())})
	}
	if more := len(held.Kept) - maxNoted; more > 0 {
		all = append(all, shadowdiff.Note{Name: "kept", Text: fmt.Sprintf("%d more: GET /status", more)})
	}
	all = append(all, shadowdiff.Note{Name: "digest", Text: s.Digest.String()})
	release := "never by time, only by acceptance"
	if at := s.ReleaseAt; !at.IsZero() {
		release = at.UTC().Format(time.RFC3339) + " at the earliest"
	}
	return append(all,
		shadowdiff.Note{Name: "since", Text: s.Since.UTC().Format(time.RFC3339)},
		shadowdiff.Note{Name: "release", Text: release},
		shadowdiff.Note{Name: "accept", Text: command},
	)
}

// Limits of an acceptance.
const (
	maxBy  = 200  // characters
	maxWhy = 1000 // characters
)

// MaxForm limits the parameters of a command, in bytes.
const MaxForm = 256 << 10

// digestHelp tells the operator how to get the digest.
const digestHelp = "say which table you accept, as digest=DIGEST: GET /guard/held shows it with its digest"

// Accept publishes the table that a guard holds back. It answers only on the control socket: see [ListenControl].
//
// The parameter digest names what the operator looked at, the table or the list of kept objects, so that nobody accepts something else by
// accident. The parameters namespace and object, each possibly given more than once, accept only some of the kept objects. The
// parameter why is kept with the decision, and so is by, the name that the peer gives for its user; without it, the user id of the
// peer. The errors of accept come from package guard.
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

// AcceptEndpoints returns the endpoint of the control socket that accepts, and the one of the support listener that says where to
// accept instead. The command is what accepts in the pod, such as "routesrv accept".
func AcceptEndpoints(accept func(publish.Acceptance) (*table.Table, error), command string, log *slog.Logger) []Endpoint {
	return []Endpoint{
		{Listener: ControlListener, Path: api.PathAccept, Methods: []string{http.MethodPost}, MaxBody: MaxForm, Handler: Accept(accept, log),
			Does: "publishes the held table, or releases kept objects: `digest=` names what you looked at; `namespace=` and `object=` choose some objects"},
		acceptElsewhere(command),
	}
}

// acceptElsewhere returns an endpoint of the support listener that refuses to accept, and says what to do instead.
func acceptElsewhere(command string) Endpoint {
	return Endpoint{
		Listener: SupportListener, Path: api.PathAccept, Methods: []string{}, ChecksMethods: true, // no method at all
		Does: "405: held tables are accepted in the pod, with `" + command + "`",
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Allow", "")
			WriteJSON(w, http.StatusMethodNotAllowed, api.Error{
				Error: "no table is accepted over the network, since a proxy would forward such a request: run in the pod, with kubectl exec: " + command + " DIGEST --why REASON"})
		}),
	}
}

// refuse maps an error of accept to an HTTP answer.
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

// ReadForm reads the parameters of a command from the query or a form, of which it reads a bounded number of bytes.
func ReadForm(w http.ResponseWriter, r *http.Request) (url.Values, error) {
	r.Body = http.MaxBytesReader(w, r.Body, MaxForm)
	if err := r.ParseForm(); err != nil {
		return nil, fmt.Errorf("read the parameters: %w", err)
	}
	return r.Form, nil
}

// WordsOf returns the parameters by and why: who decided, and for what reason. The error says which is no short text in one line.
func WordsOf(form url.Values) (by, why string, err error) {
	by, why = strings.TrimSpace(form.Get("by")), form.Get("why")
	if err := checkText("by", by, maxBy); err != nil {
		return "", "", err
	}
	return by, why, checkText("why", why, maxWhy)
}

// readAcceptance reads the parameters digest, by and why from the query or a form. The error says which parameter is missing or wrong.
func readAcceptance(w http.ResponseWriter, r *http.Request) (a publish.Acceptance, err error) {
	form, err := ReadForm(w, r)
	if err != nil {
		return a, err
	}
	text := form.Get("digest")
	if text == "" {
		return a, errors.New(digestHelp)
	}
	if a.Digest, err = table.ParseDigest(text); err != nil {
		return a, fmt.Errorf("digest: %w", err)
	}
	if a.Digest.IsZero() {
		return a, errors.New(digestHelp)
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
		return kube.Ref{}, fmt.Errorf("object %q: want KIND/NAMESPACE/NAME, such as Ingress/shop/cart", text)
	}
	for _, kind := range []kube.Kind{kube.KindIngress, kube.KindRouteGroup, kube.KindService} {
		if strings.EqualFold(parts[0], string(kind)) {
			return kube.Ref{Kind: kind, Namespace: parts[1], Name: parts[2]}, nil
		}
	}
	return kube.Ref{}, fmt.Errorf("object %q: objects of the kinds Ingress, RouteGroup and Service are kept", text)
}

// CheckWords rejects a text that is no short text in one line.
func CheckWords(name, text string) error { return checkText(name, text, maxWhy) }

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
