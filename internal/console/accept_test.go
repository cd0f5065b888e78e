package console_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/internal/httpserve"
)

var (
	digest = strings.Repeat("ab", 32)
	other  = strings.Repeat("cd", 32)
	token  = regexp.MustCompile(`name="token" value="([^"]+)"`)
)

func holding() *world {
	w := newWorld()
	w.state.Guard = httpserve.GuardReport{Held: true, Reason: "routes_lost", Detail: "from 10 to 2", Digest: digest, Routes: 2, Since: time.Now()}
	return w
}

// form returns what a browser sends for the page that the handler serves.
func form(t *testing.T, h http.Handler) url.Values {
	t.Helper()
	m := token.FindStringSubmatch(get(t, h, "/"))
	if m == nil {
		t.Fatal("no token in the page")
	}
	return url.Values{"digest": {digest}, "by": {"ana"}, "why": {"the shop moved"}, "token": {m[1]}}
}

func TestConsoleAcceptsWithNameAndReason(t *testing.T) {
	w := holding()
	h := handler(w.config())
	status, _, header := answer(h, loopback("POST", "/accept", form(t, h)))
	if status != http.StatusSeeOther || header.Get("Location") != "./#gate" {
		t.Fatalf("%d %v", status, header)
	}
	if len(w.accepted) != 1 || w.accepted[0].By != "ana" || w.accepted[0].Why != "the shop moved" || w.accepted[0].Digest.String() != digest {
		t.Errorf("accepted %+v", w.accepted)
	}
}

// TestConsoleAcceptanceIsNotForged: other sites, other names of this machine, other machines, and forms without the token of a
// page cannot accept anything.
func TestConsoleAcceptanceIsNotForged(t *testing.T) {
	w := holding()
	h, elsewhere := handler(w.config()), handler(w.config())
	good := form(t, h)
	with := func(name, value string) url.Values {
		v := url.Values{}
		for k, s := range good {
			v[k] = s
		}
		v.Set(name, value)
		return v
	}
	for name, c := range map[string]struct {
		form   url.Values
		change func(*http.Request)
		status int
	}{
		"no token":                {with("token", ""), nil, 403},
		"a made up token":         {with("token", strings.Repeat("A", 54)), nil, 403},
		"no base64":               {with("token", "%%%"), nil, 403},
		"token of another server": {with("token", form(t, elsewhere).Get("token")), nil, 403},
		"token of another table":  {with("digest", other), nil, 403},
		"no digest":               {with("digest", ""), nil, 400},
		"no name":                 {with("by", " "), nil, 400},
		"no reason":               {with("why", ""), nil, 400},
		"a reason in two lines":   {with("why", "a\nb"), nil, 400},
		"another site":            {good, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		"another port":            {good, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }, 403},
		"another origin": {good, func(r *http.Request) {
			r.Header.Del("Sec-Fetch-Site")
			r.Header.Set("Origin", "http://evil.example")
		}, 403},
		"another machine":      {good, func(r *http.Request) { r.RemoteAddr = "10.2.0.7:4711" }, 403},
		"a name that rebinds":  {good, func(r *http.Request) { r.Host = "evil.example:9911" }, 403},
		"an address of others": {good, func(r *http.Request) { r.Host = "10.2.0.7:9911" }, 403},
		"a large form":         {with("why", strings.Repeat("x", 64<<10)), nil, 400},
	} {
		r := loopback("POST", "/accept", c.form)
		if c.change != nil {
			c.change(r)
		}
		if status, body, _ := answer(h, r); status != c.status || !strings.Contains(body, "Not accepted") {
			t.Errorf("%s: %d, want %d\n%s", name, status, c.status, body)
		}
	}
	// A token in the query does not count: an attacker can plant an address.
	r := loopback("POST", "/accept?token="+good.Get("token"), with("token", ""))
	if status, _, _ := answer(h, r); status != 403 {
		t.Errorf("token in the query: %d", status)
	}
	if status, _, _ := answer(h, loopback("GET", "/accept?"+good.Encode(), nil)); status != http.StatusMethodNotAllowed && status != http.StatusNotFound {
		t.Errorf("GET: %d", status)
	}
	if len(w.accepted) != 0 {
		t.Errorf("accepted %+v", w.accepted)
	}
}

func TestConsoleTokenExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := holding()
		h := handler(w.config())
		old := form(t, h)
		time.Sleep(12*time.Hour + time.Second)
		if status, body, _ := answer(h, loopback("POST", "/accept", old)); status != 403 || !strings.Contains(body, "too old") {
			t.Errorf("%d\n%s", status, body)
		}
		if status, _, _ := answer(h, loopback("POST", "/accept", form(t, h))); status != http.StatusSeeOther {
			t.Errorf("a fresh token: %d", status)
		}
	})
}

// TestFormIsForOperatorsOnly: a visitor who may not accept gets no token, but is told who may.
func TestFormIsForOperatorsOnly(t *testing.T) {
	h := handler(holding().config())
	for _, change := range []func(*http.Request){
		func(r *http.Request) { r.RemoteAddr = "10.2.0.7:4711" },
		func(r *http.Request) { r.RemoteAddr, r.Host = "10.2.0.7:4711", "routesrv.ingress:9911" },
		func(r *http.Request) { r.Host = "10.2.0.7:9911" },
	} {
		r := loopback("GET", "/", nil)
		change(r)
		status, body, _ := answer(h, r)
		if status != 200 || token.MatchString(body) || !strings.Contains(body, "kubectl port-forward") || !strings.Contains(body, "routes_lost") {
			t.Errorf("%s from %s: %d\n%s", r.Host, r.RemoteAddr, status, body)
		}
	}
}

// TestPagesAreNotForRebindingNames: a page on the internet whose name was made to resolve to this machine can read nothing.
func TestPagesAreNotForRebindingNames(t *testing.T) {
	h := handler(holding().config())
	for host, want := range map[string]int{
		"localhost:9911": 200, "127.0.0.1:9911": 200, "[::1]:9911": 200, "LOCALHOST": 200, "10.2.0.7:9911": 200,
		"evil.example:9911": 421, "evil.example": 421, "localhost.evil.example:9911": 421, "127.0.0.1.evil.example": 421, "": 421,
	} {
		for _, target := range []string{"/", "/fleet", "/object", "/request", "/client?id=x"} {
			r := loopback("GET", target, nil)
			r.Host = host
			status, body, _ := answer(h, r)
			if want == 200 && target == "/client?id=x" {
				continue
			}
			if status != want || want != 200 && strings.Contains(body, "routes_lost") {
				t.Errorf("GET %s under %q: %d, want %d", target, host, status, want)
			}
		}
	}
}

func TestRefusedAcceptanceIsExplained(t *testing.T) {
	for err, want := range map[error]string{
		guard.ErrNothingHeld:                    "No table is held any more",
		&guard.HeldError{Err: guard.ErrNotHeld}: "Another table is held now",
	} {
		w := holding()
		h := handler(w.config())
		sent := form(t, h)
		w.refuse = err
		if status, body, _ := answer(h, loopback("POST", "/accept", sent)); status != http.StatusConflict || !strings.Contains(body, want) {
			t.Errorf("%v: %d\n%s", err, status, body)
		}
	}
}
