package server

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/fleet"
	"github.com/routesrv/routesrv/poller"
)

// TestOnlyReportsThatAskAreRanked: other reports cost no questions to peers, and those that ask cost one for ten seconds, also if the
// client leaves before the answer.
func TestOnlyReportsThatAskAreRanked(t *testing.T) {
	asked := 0
	s := &Server{started: time.Now().Add(-time.Hour)}
	s.cfg.Source = struct{ poller.Source }{}
	s.clients = &clients{Registry: fleet.New(fleet.Config{Name: "a"}), peers: func(ctx context.Context) []fleet.Answer {
		if asked++; ctx.Err() != nil {
			t.Error("the question to the peers ends with the request")
		}
		return nil
	}}
	report := func(ctx context.Context, node int, body string) string {
		r := httptest.NewRequest(http.MethodPost, api.PathClients, strings.NewReader(body)).WithContext(ctx)
		r.Header.Set(api.HeaderClient, fmt.Sprintf("kind=sidecar;id=p%[1]d;node=n%[1]d;mode=Pre;interval=3000", node))
		w := httptest.NewRecorder()
		if s.serveReport(w, r); w.Code != http.StatusNoContent {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		return w.Header().Get(api.HeaderRank)
	}
	for node := range 3 {
		if rank := report(t.Context(), node, "{}"); rank != "" || asked > 0 {
			t.Fatalf("rank %q, and the peers were asked %d times", rank, asked)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	ranks := make(map[string]bool)
	for node := range 3 {
		ranks[report(gone, node, `{"wants_rank":true}`)] = true
	}
	if len(ranks) != 3 || !ranks["0"] || !ranks["1"] || !ranks["2"] || asked != 1 {
		t.Errorf("ranks %v, and the peers were asked %d times", ranks, asked)
	}
}
