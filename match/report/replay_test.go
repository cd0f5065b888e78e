package report_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/match"
	"github.com/routesrv/routesrv/match/report"
	"github.com/routesrv/routesrv/shadowdiff"
)

const (
	oldTable = `
cart: Host("^shop[.]example[.]org$") && PathSubtree("/cart") -> setPath("/") -> "http://10.0.0.1";
web: Host("^shop[.]example[.]org$") && PathSubtree("/") -> "http://10.0.0.2";
pods: Host("^pods[.]example[.]org$") -> <roundRobin, "http://10.0.0.1", "http://10.0.0.2">;
agent: Host("^agent[.]example[.]org$") && HeaderRegexp("User-Agent", "curl") -> <shunt>;
inside: Host("^inside[.]example[.]org$") && ClientIP("10.0.0.0/8") -> <shunt>;`
	newTable = `
basket: Host("^shop[.]example[.]org$") && PathSubtree("/cart") -> setPath("/") -> "http://10.0.0.1";
web: Host("^shop[.]example[.]org$") && PathSubtree("/") -> compress() -> "http://10.0.0.2";
pods: Host("^pods[.]example[.]org$") -> <roundRobin, "http://10.0.0.1", "http://10.0.0.3">;
fresh: Host("^new[.]example[.]org$") -> <shunt>;`
)

const text = `
# a comment
10.0.0.9 - - [24/Nov/2026:10:00:00 +0000] "GET /cart/7 HTTP/1.1" 200 17 "-" "curl/8.5.0" 3 shop.example.org - -
10.0.0.9 - anna [24/Nov/2026:10:00:00 +0000] "GET /?a=b HTTP/1.1" 200 17 "https://example.org/" "Mozilla "5.0" (X11)" 3 shop.example.org flow -
{"host":"10.1.1.1","method":"GET","uri":"/x","proto":"HTTP/1.1","requested-host":"shop.example.org","user-agent":"curl/8","status":200}
{"host":"10.1.1.1","method":"GET","uri":"/","requested-host":"agent.example.org","user-agent":"curl/8"}
{"host":"10.1.1.1","method":"GET","uri":"/","requested-host":"agent.example.org","user-agent":"wget"}
{"host":"192.0.2.7","method":"GET","uri":"/","requested-host":"inside.example.org","user-agent":"wget"}
{"host":"10.1.1.1","method":"GET","uri":"/","requested-host":"inside.example.org","user-agent":"wget"}
POST https://new.example.org/
GET http://pods.example.org/
GET http://nowhere.example.org/
no request
{"host":
10.0.0.9 - - [24/Nov/2026:10:00:00 +0000] "-" 400 0 "-" "-" 0 - - -
`

func run(t *testing.T, log []byte, ignore shadowdiff.Ignore) report.Replayed {
	t.Helper()
	r := report.NewReplay(eskip.MustParse(oldTable), eskip.MustParse(newTable), match.Options{}, ignore)
	if err := r.Read(t.Context(), bytes.NewReader(log), nil); err != nil {
		t.Fatal(err)
	}
	return r.Report()
}

func told(r report.Replayed) string {
	var b strings.Builder
	for _, d := range r.Differences {
		fmt.Fprintf(&b, "%s %d %v %v %q %q\n", d.Kind, d.Requests, d.Old, d.New, d.Parts, d.Examples)
	}
	fmt.Fprintf(&b, "%d requests, %d the same, %d skipped: %s", r.Requests, r.Same, r.Skipped, r.FirstSkipped)
	return b.String()
}

func TestReplay(t *testing.T) {
	want := `filters 2 [web] [web] ["filter 1: nothing -> compress()"] ["GET http://shop.example.org/?a=b" "GET http://shop.example.org/x"]
lost 1 [agent] [] [] ["GET http://agent.example.org/"]
lost 1 [inside] [] [] ["GET http://inside.example.org/"]
gained 1 [] [fresh] [] ["POST http://new.example.org/"]
backend 1 [pods] [pods] ["endpoint: http://10.0.0.2 -> nothing" "endpoint: nothing -> http://10.0.0.3"] ["GET http://pods.example.org/"]
renamed 1 [cart] [basket] [] ["GET http://shop.example.org/cart/7"]
10 requests, 3 the same, 3 skipped: line 13: "request": must be the URL of a request, such as https://shop.example.org/cart`
	if got := told(run(t, []byte(text), shadowdiff.Ignore{})); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if got := told(run(t, packed.Bytes(), shadowdiff.Ignore{})); got != want {
		t.Errorf("compressed:\n%s", got)
	}
	if got := told(run(t, []byte(text), shadowdiff.Ignore{Endpoints: true})); strings.Contains(got, "pods") {
		t.Errorf("endpoints count, although they are ignored:\n%s", got)
	}
}

// TestReadEndsWithItsContext: a log may have no end.
func TestReadEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := report.NewReplay(eskip.MustParse(oldTable), eskip.MustParse(newTable), match.Options{}, shadowdiff.Ignore{})
	calls := 0
	err := r.Read(ctx, endless{}, func(*match.Request) {
		if calls++; calls == 5000 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return copy(p, "GET http://shop.example.org/\n"), nil }

func TestALineWithoutEndIsAnError(t *testing.T) {
	r := report.NewReplay(nil, nil, match.Options{}, shadowdiff.Ignore{})
	err := r.Read(t.Context(), strings.NewReader(strings.Repeat("x", 2<<20)), nil)
	if err == nil || !strings.Contains(err.Error(), "is this a log?") {
		t.Errorf("error %v", err)
	}
}

// TestChanceThatStaysIsTheSame: a split of traffic is a difference only if other routes take part.
func TestChanceThatStaysIsTheSame(t *testing.T) {
	split := `a: Path("/") && Traffic(0.3) -> "http://10.0.0.1"; b: Path("/") -> "http://10.0.0.2";`
	for after, want := range map[string]int{
		split: 0,
		strings.ReplaceAll(split, "0.0.2", "0.0.3"): 1,
		`b: Path("/") -> "http://10.0.0.2";`:        1,
	} {
		r := report.NewReplay(eskip.MustParse(split), eskip.MustParse(after), match.Options{}, shadowdiff.Ignore{})
		r.Add(match.Request{Method: "GET", Target: "/", Host: "shop.example.org"})
		if got := r.Report(); len(got.Differences) != want || want == 1 && got.Differences[0].Kind != report.Undecided {
			t.Errorf("%s: %s", after, told(got))
		}
	}
}

// FuzzReplay: whatever a line says, it is a request or skipped, and a table does not differ from itself.
func FuzzReplay(f *testing.F) {
	for line := range strings.Lines(text) {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		r := report.NewReplay(eskip.MustParse(oldTable), eskip.MustParse(oldTable), match.Options{}, shadowdiff.Ignore{})
		if err := r.Read(t.Context(), bytes.NewReader(line), nil); err != nil {
			return
		}
		got := r.Report()
		if got.Different() != 0 || len(got.Differences) != 0 {
			t.Fatalf("%q: %s", line, told(got))
		}
		if _, err := json.Marshal(got); err != nil {
			t.Fatal(err)
		}
	})
}
