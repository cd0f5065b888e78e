package timeline_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/test/robustness/history"
	"github.com/routesrv/routesrv/test/robustness/timeline"
	"github.com/routesrv/routesrv/test/robustness/validate"
)

// story returns a short history with everything that is drawn.
func story() *history.History {
	const s = time.Second
	return &history.History{
		Run: history.Run{Seed: 42, Duration: 12 * s, Calm: 8 * s, Settled: 10 * s, Members: []history.Member{
			{Name: "s1", Kind: history.Server, Transport: "poll"}, {Name: "r1", Kind: history.Relay, Upstreams: []string{"s1"}},
			{Name: "p1", Kind: history.Poller, Upstreams: []string{"s1", "r1"}, Zone: "eu"}, {Name: "e1", Kind: history.Stream, Upstreams: []string{"s1"}},
		}},
		Changes: []history.Change{
			{At: s, Revision: 1, Kind: "Ingress", Class: "valid"}, {At: 2 * s, Revision: 2, Kind: "RouteGroup", Class: "poison"},
			{At: 3 * s, Revision: 3, Kind: "Ingress", Class: "mass"}, {At: 4 * s, Revision: 2, Reset: true},
		},
		Faults: []history.Fault{
			{From: 2 * s, To: 5 * s, Name: "drip", Link: "p1>s1", Args: "bytes=3"}, {From: 3 * s, Name: "kill", Link: "s1"},
			{From: s, To: s, Name: `<script>"&`, Link: "s1>api"},
		},
		Events: []history.Event{{At: s, Member: "s1", Name: "started"}, {At: 6 * s, Member: "s1", Name: "accept", Args: "abc"}},
		Answers: []history.Answer{
			{Begin: s, End: s + 1, Client: "p1", Server: "s1", Status: 200, Form: "table", Digest: "d1d1", Revision: 1, Outcome: history.Applied},
			{Begin: 2 * s, End: 2*s + 1, Client: "p1", Server: "r1", Status: 304, Form: "none", Digest: "d1d1", Revision: 1, Outcome: history.Unchanged},
			{Begin: 3 * s, End: 5 * s, Client: "p1", Server: "s1", Form: "none", Outcome: history.Failed, Why: "reset <b>"},
			{Begin: 4 * s, End: 4 * s, Client: "e1", Server: "s1", Form: "event", Outcome: history.Refused, Why: "digest"},
		},
	}
}

func write(t *testing.T, h *history.History, violations ...validate.Violation) string {
	t.Helper()
	var b strings.Builder
	if err := timeline.Write(&b, h, violations); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestThePageHasALaneForEverybody(t *testing.T) {
	page := write(t, story())
	for _, want := range []string{
		">s1<title>server s1, transport poll</title>", ">p1<title>poller p1, asks s1, r1, zone eu</title>", ">e1<title>stream e1, asks s1</title>",
		">r1<title>relay r1, asks s1</title>", ">p1&gt;s1<title>faults on p1&gt;s1</title>", "drip bytes=3 from 2 s to 5 s",
		"1 changes from", "started", "accept abc after 6 s", "answer 2 from s1 after 5 s: none failed",
		"table d1d1 of revision 1, first received by p1", "calm after 8 s", "no violations",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
}

func TestTheFirstViolationIsMarked(t *testing.T) {
	page := write(t, story(),
		validate.Violation{Validator: "Monotonic", At: 4 * time.Second, Member: "p1", Index: 1, Text: "first < bad"},
		validate.Violation{Validator: "Quiet", At: 5 * time.Second, Member: "nobody", Index: -1, Text: "second"})
	for _, want := range []string{
		"2 violations, the first after 4 s", "first violation: Monotonic: 4s p1: first &lt; bad", `<tr class="firstrow"><td>4 s</td><td>Monotonic</td><td>p1</td><td>1</td>`,
		"<td>Quiet</td><td>nobody</td><td></td><td>second</td>", `<rect class="violation"`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	if strings.Count(page, `class="first"`) != 1 {
		t.Error("not one line for the first violation")
	}
}

// TestThePageIsWellFormedAndAlone: every element is closed, external texts are escaped, and nothing is loaded.
func TestThePageIsWellFormedAndAlone(t *testing.T) {
	h := story()
	h.Run.Plant = "a <plant>"
	h.Run.Members = append(h.Run.Members, history.Member{Name: `x"><img src=http://evil/>`, Kind: history.Poller})
	page := write(t, h, validate.Violation{Validator: "Quiet", Member: "p1", Text: "</td><script>alert(1)</script>"})
	d := xml.NewDecoder(strings.NewReader(page))
	d.Strict = true
	d.Entity = xml.HTMLEntity
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("at byte %d: %v", d.InputOffset(), err)
		}
		if e, ok := token.(xml.StartElement); ok {
			if e.Name.Local == "script" || e.Name.Local == "img" || e.Name.Local == "link" {
				t.Errorf("the page has an element %s", e.Name.Local)
			}
			for _, a := range e.Attr {
				if a.Name.Local == "href" || a.Name.Local == "src" || strings.HasPrefix(a.Name.Local, "on") {
					t.Errorf("the page has an attribute %s", a.Name.Local)
				}
			}
		}
	}
	if strings.Contains(page, "url(") || strings.Contains(page, "@import") {
		t.Error("the style loads something")
	}
}

func TestAnEmptyHistoryHasAPage(t *testing.T) {
	if page := write(t, &history.History{}); !strings.Contains(page, "</html>") {
		t.Error("no end")
	}
}

// TestThePageOfALongRunStaysSmall: indistinguishable marks are merged.
func TestThePageOfALongRunStaysSmall(t *testing.T) {
	h := story()
	for i := range 200_000 {
		h.Answers = append(h.Answers, history.Answer{
			Begin: time.Duration(i) * 50 * time.Microsecond, End: time.Duration(i)*50*time.Microsecond + 10, Client: "p1", Server: "s1",
			Digest: fmt.Sprint(i), Outcome: history.Applied,
		})
	}
	page := write(t, h)
	if len(page) > 1<<20 {
		t.Errorf("%d bytes", len(page))
	}
	if !strings.Contains(page, "more)") {
		t.Error("the page does not say that marks stand for several")
	}
}

// failing is a writer that accepts a limited number of bytes.
type failing struct{ n int }

func (f *failing) Write(p []byte) (int, error) {
	if f.n -= len(p); f.n < 0 {
		return 0, errors.New("full")
	}
	return len(p), nil
}

func TestTheErrorOfTheWriterIsReturned(t *testing.T) {
	if err := timeline.Write(&failing{100}, story(), nil); err == nil || err.Error() != "full" {
		t.Errorf("error %v", err)
	}
}
