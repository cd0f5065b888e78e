package fleet_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/routesrv/routesrv/fleet"
)

// FuzzIdentity: an accepted header is small and printable, and the identity encodes to the same value again.
func FuzzIdentity(f *testing.F) {
	for _, seed := range []string{
		"", ";", "=", "kind=sidecar", "kind=sidecar;pod=ingress/skipper-1;node=n1;zone=eu-1a;version=v1.2.3;mode=Exec;interval=3000",
		"kind=relay;id=r1;interval=1", "kind=proxy;id=p;interval=4294967295;unknown=1", "kind=king;id=p;interval=1", "kind=proxy;id=a b;interval=1",
		"kind=proxy;id=" + strings.Repeat("x", 201) + ";interval=1", "kind=proxy;id=\x00;interval=1", "kind=proxy;id=p;id=q;mode=exec;interval=-1",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		i, ok := fleet.ParseIdentity(text)
		if !ok {
			return
		}
		if len(i.ID) == 0 || len(i.ID) > 200 || len(i.Node) > 64 || len(i.Zone) > 64 || len(i.Version) > 64 || i.Interval <= 0 || i.Interval > 5*time.Minute {
			t.Errorf("%q is taken as %+v", text, i)
		}
		if strings.ContainsFunc(i.ID+i.Node+i.Zone+i.Version+i.Mode, func(c rune) bool { return c <= ' ' || c >= 0x7f || c == '<' || c == '"' }) {
			t.Errorf("%q is taken with characters that are not plain: %+v", text, i)
		}
		again, ok := fleet.ParseIdentity(i.String())
		if diff := cmp.Diff(i, again); !ok || diff != "" {
			t.Errorf("%q comes back as %q, %v (-want +got):\n%s", text, i.String(), ok, diff)
		}
	})
}

// FuzzReport: an accepted report is small, has printable texts and ages that are not negative, and is accepted again after
// encoding.
func FuzzReport(f *testing.F) {
	for _, seed := range []string{
		"", "null", "{}", "[]", `{"holds":{"digest":"` + strings.Repeat("ab", 32) + `","revision":7},"holds_ago_seconds":1.5}`,
		`{"holds":{"digest":"ab"}}`, `{"rejected":"\u0000\u001b[31m<script>"}`, `{"holds_ago_seconds":-1}`, `{"holds_ago_seconds":1e300}`,
		`{"refused_routes":18446744073709551615,"metrics_error":"\u0000"}`,
		`{"clients":{"current":-1}}`, `{"clients":{"current":1000001}}`, `{"rejected":"` + strings.Repeat("x", 5000) + `"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := fleet.ReadReport(bytes.NewReader(body))
		if err != nil {
			return
		}
		if len(body) > fleet.MaxReport || len(r.Rejected) > 256 || strings.ContainsFunc(r.Rejected, func(c rune) bool { return c < ' ' || c >= 0x7f }) {
			t.Errorf("%d bytes are taken, with the reason %q", len(body), r.Rejected)
		}
		if r.HoldsAgo < 0 {
			t.Errorf("taken with an age below zero: %+v", r)
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		again, err := fleet.ReadReport(bytes.NewReader(text))
		if len(text) > fleet.MaxReport {
			return // escapes can make it longer
		}
		if diff := cmp.Diff(r, again, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("%s comes back with %v (-want +got):\n%s", text, err, diff)
		}
	})
}
