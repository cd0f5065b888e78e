package httpserve_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/app/httpserve"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

// heldTable is a table of one route.
func heldTable(t *testing.T) *table.Table {
	t.Helper()
	tab, err := table.New([]table.Route{{ID: "a", Text: "a: * -> <shunt>;"}}, 1, time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// accepting returns the handler, and the acceptances that reach the decider.
func accepting(tab *table.Table, err error) (h http.Handler, got *[]publish.Acceptance, log *bytes.Buffer) {
	got, log = new([]publish.Acceptance), new(bytes.Buffer)
	return httpserve.Accept(func(a publish.Acceptance) (*table.Table, error) {
		*got = append(*got, a)
		return tab, err
	}, slog.New(slog.NewTextHandler(log, nil))), got, log
}

// ask posts over the control socket.
func ask(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	r = r.WithContext(httpserve.Peer{UID: 1234, PID: 7}.Attach(r.Context()))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func post(query url.Values) *http.Request {
	return httptest.NewRequest(http.MethodPost, "/guard/accept?"+query.Encode(), nil)
}

func TestAcceptanceSaysWhoAndWhy(t *testing.T) {
	tab := heldTable(t)
	digest := tab.Digest().String()
	values := url.Values{"digest": {digest}, "by": {"Ann Ö."}, "why": {"namespace shop moved, see #1"}}
	h, got, log := accepting(tab, nil)
	w := ask(h, post(values))
	var answer struct {
		Digest, By, Why string
		Routes          int
		At              time.Time
	}
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %s (%v)", w.Code, w.Body, err)
	}
	if time.Since(answer.At) > time.Minute {
		t.Errorf("accepted at %v", answer.At)
	}
	answer.At = time.Time{}
	want := answer
	want.Digest, want.By, want.Why, want.Routes = digest, "Ann Ö.", "namespace shop moved, see #1", 1
	if diff := cmp.Diff(want, answer); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]publish.Acceptance{{Digest: tab.Digest(), By: want.By, Why: want.Why}}, *got); diff != "" {
		t.Errorf("acceptances (-want +got):\n%s", diff)
	}
	if !strings.Contains(log.String(), `why="namespace shop moved, see #1"`) {
		t.Errorf("log %s", log)
	}
}

// TestAcceptanceWithoutANameHasThatOfThePeer: the kernel knows the user, who need not say it.
func TestAcceptanceWithoutANameHasThatOfThePeer(t *testing.T) {
	h, got, log := accepting(heldTable(t), nil)
	if w := ask(h, post(url.Values{"digest": {strings.Repeat("a", 64)}, "by": {" "}})); w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if by := (*got)[0].By; by != "uid 1234" || !strings.Contains(log.String(), "pid=7") {
		t.Errorf("by %q, log %s", by, log)
	}
}

// TestAcceptanceNeedsTheSocket: whatever a request over TCP says of itself.
func TestAcceptanceNeedsTheSocket(t *testing.T) {
	h, got, _ := accepting(heldTable(t), nil)
	r := post(url.Values{"digest": {strings.Repeat("a", 64)}})
	r.RemoteAddr, r.Host = "127.0.0.1:1234", "localhost"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusForbidden || len(*got) > 0 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestAcceptanceIsRefusedBeforeAnybodyIsAsked(t *testing.T) {
	digest := strings.Repeat("a", 64)
	for _, test := range []struct {
		name   string
		values url.Values
		want   string
	}{
		{"nothing", nil, "name the table that you accept, as digest=DIGEST: GET /guard/held shows the digest"},
		{"no digest", url.Values{"by": {"ann"}}, "GET /guard/held"},
		{"digest of nothing", url.Values{"digest": {strings.Repeat("0", 64)}}, "GET /guard/held"},
		{"half of a digest", url.Values{"digest": {digest[:32]}}, "digest: digest has 32 characters, must have 64"},
		{"long name", url.Values{"digest": {digest}, "by": {strings.Repeat("ö", 201)}}, "by: 201 characters, limit 200"},
		{"long reason", url.Values{"digest": {digest}, "why": {strings.Repeat("x", 1001)}}, "why: 1001 characters, limit 1000"},
		{"lines", url.Values{"digest": {digest}, "why": {"a\nb"}}, "why: must be printable characters in one line"},
		{"escape sequence", url.Values{"digest": {digest}, "by": {"\x1b[31m"}}, "by: must be printable characters in one line"},
		{"other direction", url.Values{"digest": {digest}, "by": {"\u202eann"}}, "by: must be printable characters in one line"},
		{"no text", url.Values{"digest": {digest}, "by": {"\xff"}}, "by: must be printable characters in one line"},
	} {
		t.Run(test.name, func(t *testing.T) {
			h, got, _ := accepting(nil, nil)
			w := ask(h, post(test.values))
			var answer struct{ Error string }
			if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusBadRequest || !strings.Contains(answer.Error, test.want) {
				t.Errorf("%d %s (%v), want 400 with %q", w.Code, w.Body, err, test.want)
			}
			if len(*got) != 0 {
				t.Errorf("asked to accept %+v", *got)
			}
		})
	}
}

func TestRefusedAcceptanceSaysWhatIsHeld(t *testing.T) {
	tab := heldTable(t)
	held := func(err error) error {
		return &publish.HeldError{Err: err, Digest: tab.Digest(), Reason: guard.RoutesLost}
	}
	for _, test := range []struct {
		err    error
		status int
		held   bool
	}{
		{publish.ErrNothingHeld, http.StatusConflict, false},
		{held(publish.ErrNotHeld), http.StatusConflict, true},
		{held(publish.ErrNoDigest), http.StatusBadRequest, true},
		{errors.New("disk full"), http.StatusInternalServerError, false},
	} {
		h, _, log := accepting(nil, test.err)
		w := ask(h, post(url.Values{"digest": {strings.Repeat("b", 64)}}))
		var answer struct{ Error, Held, Reason string }
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != test.status || answer.Error != test.err.Error() {
			t.Errorf("%v: %d %s (%v)", test.err, w.Code, w.Body, err)
		}
		if test.held != (answer.Held == tab.Digest().String() && answer.Reason == string(guard.RoutesLost)) {
			t.Errorf("%v: held is %q for %q", test.err, answer.Held, answer.Reason)
		}
		if log.Len() > 0 {
			t.Errorf("%v: log %s", test.err, log)
		}
	}
}
