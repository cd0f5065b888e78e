package world

import (
	"context"
	"encoding/json"
	"net/http"
)

// held returns the digest of the table that a process holds back, as an operator sees it; empty if it holds none or does not
// answer.
func (w *World) held(ctx context.Context, p *Process) string {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Support+"/guard/held?format=json", nil)
	if err != nil {
		return ""
	}
	resp, err := w.control.Do(r)
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
