package robustness

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"
)

// refusedText is in what the trial proxy of a run refuses.
const refusedText = "no-proxy-accepts-this"

// trialProxy is the trial proxy of a server: it applies the table that the server wants to try, and refuses routes with refusedText.
type trialProxy struct {
	*httptest.Server
	end  context.CancelFunc
	done sync.WaitGroup

	mu    sync.Mutex
	table string
}

// startTrialProxy starts a proxy that asks a support listener for its table.
func startTrialProxy(support string) *trialProxy {
	p := &trialProxy{}
	p.Server = httptest.NewServer(p)
	var ctx context.Context
	ctx, p.end = context.WithCancel(context.Background())
	p.done.Go(func() {
		for ctx.Err() == nil {
			p.fetch(ctx, "http://"+support+"/trial/routes")
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
	return p
}

// Close ends the proxy.
func (p *trialProxy) Close() {
	p.end()
	p.done.Wait()
	p.Server.Close()
}

func (p *trialProxy) fetch(ctx context.Context, url string) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return
	}
	answer, err := p.Client().Do(r)
	if err != nil {
		return // the server is away
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err == nil && answer.StatusCode == http.StatusOK {
		p.mu.Lock()
		p.table = string(text)
		p.mu.Unlock()
	}
}

// ServeHTTP is the support listener: the signs of the process, the routes in use, and the refused ones.
func (p *trialProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	table := p.table
	p.mu.Unlock()
	type refusal struct {
		ID    string `json:"id"`
		Error string `json:"error"`
	}
	refused := []refusal{}
	used := &strings.Builder{}
	for lines := bufio.NewScanner(strings.NewReader(table)); lines.Scan(); {
		if id, _, _ := strings.Cut(lines.Text(), ":"); strings.Contains(lines.Text(), refusedText) {
			refused = append(refused, refusal{id, "refused on purpose"})
		} else {
			fmt.Fprintln(used, lines.Text())
		}
	}
	switch {
	case r.URL.Path == "/metrics":
		fmt.Fprint(w, "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 1.7e9\n")
	case r.URL.Path == "/routes" && r.FormValue("invalid") != "":
		_ = json.NewEncoder(w).Encode(refused)
	case r.URL.Path == "/routes":
		_, _ = io.WriteString(w, used.String())
	default:
		http.NotFound(w, r)
	}
}
