package dataplane

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/routesrv/routesrv/internal/api"
)

// reportTimeout limits the time for a report.
const reportTimeout = 3 * time.Second

// Report sends a report of this client, JSON, to the server in use. Nothing depends on it: an error changes no state. A server of
// another kind accepts no reports.
func (c *Client) Report(ctx context.Context, body []byte) error {
	s := c.inUse()
	ctx, cancel := context.WithTimeout(ctx, min(c.cfg.Timeout, reportTimeout))
	defer cancel()
	header := http.Header{"Content-Type": {"application/json"}}
	resp, f := c.request(ctx, http.MethodPost, s.url.JoinPath("..", api.ReportPath), header, nil, bytes.NewReader(body))
	if f != nil {
		return fmt.Errorf("report to %s: %w", s.name, f.Err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 4<<10)) // so that the connection can be reused
	if resp.StatusCode != http.StatusNoContent && resp.StatusCode != http.StatusOK {
		return fmt.Errorf("report to %s: status %d", s.name, resp.StatusCode)
	}
	return nil
}
