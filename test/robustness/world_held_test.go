package robustness

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"

	"github.com/routesrv/routesrv/app/httpserve"
)

// held returns the digest of the table that a process holds back, as an operator sees it; empty if it holds none or does not
// answer.
func (w *World) held(ctx context.Context, p *Process) string {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://pod/guard/held?format=json", nil)
	if err != nil {
		return ""
	}
	resp, err := p.operator().RoundTrip(r)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	var held struct {
		Hold struct {
			Digest string `json:"digest"`
		} `json:"hold"`
	}
	if resp.StatusCode != http.StatusOK || json.NewDecoder(resp.Body).Decode(&held) != nil {
		return ""
	}
	return held.Hold.Digest
}

// operator sends requests to the control socket of the process, as a command in its pod does.
func (p *Process) operator() http.RoundTripper {
	return &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return httpserve.DialControl(ctx, filepath.Join(p.Folder, "state"))
	}}
}
