package api_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/fleet"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

var update = flag.Bool("update", false, "rewrite the documents")

// documents has an example of each document that one program writes and another reads.
func documents() map[string]any {
	at := time.Date(2026, 11, 24, 12, 3, 4, 567_000_000, time.UTC)
	digest, other := table.Digest{0xab, 0xcd}, table.Digest{0xef}
	ref := kube.Ref{Kind: kube.KindIngress, Namespace: "shop", Name: "cart"}
	hold := api.Guard{
		Held: true, Reason: guard.RoutesLost, Detail: "2 of 3 pairs of host and path are missing (66.7 %, limit 50.0 %)", Digest: other,
		Revision: 102, Routes: 1, Since: at, ReleaseAt: at.Add(time.Minute), KeptCount: 1,
		Kept: []api.Kept{{
			Ref: ref, Reason: guard.RoutesLost, Detail: "2 of 3 pairs of host and path are missing", By: "guard", Since: at, Until: at.Add(time.Minute),
			Served: "as it was", Waits: "its deletion",
		}},
		Last: &api.Release{Digest: other.String(), Reason: guard.Empty, At: at, Accepted: true, By: "ann", Why: "moved"},
	}
	file := &api.File{Path: "/state/last-known-good.eskip", Written: at, LastRead: at}
	fetch := api.Fetch{
		Applied: &api.Applied{
			Digest: digest, Revision: 100, Routes: 3, Bytes: 569, Origin: "http://routesrv/routes", ETag: api.Tag{Digest: digest, Revision: 100}.String(),
			Committed: at, Confirmed: at, SourceRead: at,
		},
		AgeSeconds: 1.5, Transport: "stream", Stream: &api.FetchStream{URL: "http://routesrv/routes", Connected: at, LastEvent: at},
		LastAttempt: at, LastSuccess: at, Servers: []api.FetchServer{{URL: "http://routesrv/routes", InUse: true, LastSuccess: at}}, LastKnownGood: file,
	}
	taken := api.Takeover{At: at, From: ref, To: kube.Ref{Kind: kube.KindRouteGroup, Namespace: "evil", Name: "all"}, Lost: 1, Example: "GET https://shop.example.org/cart: Ingress shop/cart -> RouteGroup evil/all"}
	failure := api.TrialFailure{Text: "compress(-1)", Verdict: "died", Words: "panic: invalid level", At: at}
	entry := api.HistoryEntry{
		N: 7, At: at, Revision: 100, Digest: digest, Count: 1, Changed: 1, Takeovers: []api.Takeover{taken},
		Changes:   []api.HistoryChange{{Ref: ref, What: api.ObjectChanged, By: "2026-11-24T12:03:04Z kubectl"}},
		Decisions: []api.Decision{{Time: at, What: api.DecidedSteered, Digest: digest, Objects: "freeze of namespace shop", By: "ann", Why: "deploy"}},
	}
	return map[string]any{
		"status": &api.Status{
			Version: "v1.2.3", Started: at, Ready: true,
			Table: &api.Table{
				Digest: digest, Revision: 100, ReadRevision: 102, Routes: 3, Bytes: 569, Zones: []string{"a"}, Time: at, LastRead: at, AgeSeconds: 1.5, Held: true,
			},
			Source: api.Source{LastAttempt: at, LastSuccess: at, Revision: 102, NextAttempt: at, Started: at, Initialized: at, Updated: at},
			Guard:  hold, DyingClients: 1,
			Decisions: []api.Decision{{Time: at, What: api.DecidedHeld, Digest: other, Objects: "Ingress shop/cart", Reason: guard.RoutesLost}},
			Problems:  map[string]int{"error": 1, "warning": 0, "info": 0}, LastKnownGood: file,
		},
		"status-relay": &api.Status{Version: "v1.2.3", Started: at, Upstream: &fetch, Problems: map[string]int{}},
		"problems": &api.Problems{Count: 1, Problems: []api.Problem{{
			ID: "0123456789ab", Owner: ref, Reason: "service_not_found", Severity: "error", Message: "Failed to get service s, 80",
			Text: "there is no Service \"s\" in the namespace \"shop\"", Since: at,
		}}},
		"held":    &api.HeldTable{Hold: &hold, Accept: "routesrv accept DIGEST --why REASON", Difference: json.RawMessage("{}")},
		"history": &[]api.HistoryEntry{entry}, "history-entry": &api.HistoryDifference{Entry: entry, Difference: json.RawMessage("{}")},
		"steered": &api.Steered{
			Dry: true, What: "roll back Ingress shop/cart to entry 7 of 2026-11-24T12:03:04Z", Until: at.Add(time.Hour), Pins: []string{"Ingress/shop/cart@0123456789abcdef0123456789abcdef"},
			Warnings: []string{"Ingress shop/cart, route kube_shop__cart: its service has no endpoints today"}, Changes: "same", By: "ann", Why: "bad deploy",
		},
		"trial-failures": &[]api.TrialFailure{failure},
		"status-steered": &api.Status{
			Version: "v1.2.3", Started: at, Problems: map[string]int{}, Takeovers: []api.Takeover{taken},
			Steering: &api.Steering{Digest: digest, Orders: []api.Order{{What: "pin", Scope: ref.String(), Detail: "as of entry 7: bad deploy", By: "ann", Since: at, Until: at.Add(time.Hour)}}},
			Trial:    &api.Trial{Accepted: 12, Failed: []api.TrialFailure{failure}, Waiting: 1},
		},
		"accepted": &api.Accepted{Digest: digest, Routes: 3, By: "ann", Why: "moved", At: at},
		"error":    &api.Error{Error: "another table is held: …", Held: other.String(), Reason: string(guard.RoutesLost)},
		"fresh":    &api.Fresh{Fresh: true, AgeSeconds: 1.5, LimitSeconds: 300, LastRead: at},
		"shards":   &api.Shards{Endpoints: []api.ShardEndpoint{{Address: "10.2.5.7:6379"}}},
		"current":  &api.Current{Revision: 100, Count: 3, SourceRead: api.FormatTime(at), State: api.StateHeld},
		"kept":     &[]*publish.Kept{{Ref: ref, Reason: guard.RoutesLost, Detail: "2 of 3 pairs of host and path are missing", By: "guard", Since: at, Until: at.Add(time.Hour), Accident: at, Deleted: true}},
		"report": &fleet.Report{
			Holds: fleet.Name{Digest: digest, Revision: 100}, HoldsAgo: 1.5, Refused: 1, MetricsError: "status 404",
			Proven:   fleet.Name{Digest: digest, Revision: 100},
			Pre:      &fleet.Pre{Seconds: 86400, CleanSeconds: 3600, Ready: true},
			Suspects: []fleet.Suspect{{Digest: other, Proven: digest, Deaths: 2, Evidence: "the proxy was restarted 2 times with tables that are not proven", Ago: 4.5}},
		},
		"clients": &fleet.Clients{
			Time: at, Table: &fleet.Table{Digest: digest, Revision: 100, Since: at}, Counts: fleet.Counts{Current: 1}, Total: 1,
			Zones: []fleet.Group{{Name: "a", Counts: fleet.Counts{Current: 1}}}, Versions: []fleet.Group{{Name: "v1.2.3", Counts: fleet.Counts{Current: 1}}},
			Replicas: []fleet.Replica{{Name: "routesrv-0", Instance: "X", Self: true, Clients: 1}}, Relays: []fleet.Relay{},
			Tables: []fleet.Table{{Digest: digest, Revision: 100, Since: at}}, Matched: 1,
			Suspects: []fleet.SuspectTable{{
				Digest: other, Clients: 2, Deaths: 4, Example: "ingress/proxy-1", Evidence: "the proxy was restarted 2 times with tables that are not proven", Last: at,
			}},
			Clients: []fleet.Client{{
				ID: "ingress/proxy-1", Kind: fleet.Sidecar, Pod: "ingress/proxy-1", Zone: "a", Version: "v1.2.3", Mode: "Exec", Address: "10.2.0.1",
				Replica: "routesrv-0", State: fleet.Current, Holds: &fleet.Table{Digest: digest, Revision: 100, Since: at}, Reported: at,
				FirstHeard: at, LastHeard: at, IntervalSeconds: 10,
			}},
		},
	}
}

// TestDocuments: a change of a document is a change of what other programs read.
func TestDocuments(t *testing.T) {
	for name, document := range documents() {
		path := filepath.Join("testdata", name+".json")
		got, err := json.MarshalIndent(document, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, '\n')
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
		d := json.NewDecoder(bytes.NewReader(want))
		d.DisallowUnknownFields()
		if err := d.Decode(document); err != nil {
			t.Errorf("%s cannot be read: %v", path, err)
		}
	}
}
