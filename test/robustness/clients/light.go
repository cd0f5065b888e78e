package clients

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/routesrv/routesrv/test/robustness/history"
)

// light handles an answer without keeping a text. It reads every byte.
func (c *Client) light(resp *http.Response, a *history.Answer) (err error) {
	body := io.Reader(resp.Body)
	if resp.StatusCode == http.StatusIMUsed && resp.Header.Get("Content-Encoding") == "gzip" {
		if body, err = gzip.NewReader(resp.Body); err != nil {
			return fmt.Errorf("read the body: %w", err)
		}
	}
	switch resp.StatusCode {
	case http.StatusNotModified:
		a.Outcome = history.Unchanged
		return nil
	case http.StatusOK:
		a.Form = "table"
		if a.Body, err = io.Copy(io.Discard, body); err != nil {
			return fmt.Errorf("read the body: %w", err)
		}
		if tagDigest(a.ETag) == "" {
			return refusal("a table without an ETag")
		}
	case http.StatusIMUsed:
		a.Form = "delta"
		text, err := io.ReadAll(body)
		if err != nil {
			return fmt.Errorf("read the body: %w", err)
		}
		a.Body = int64(len(text))
		if err := c.lead(text, tagDigest(a.ETag)); err != nil {
			c.plain = true
			return refusal("delta: " + err.Error())
		}
	default:
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	c.hold(a.ETag, tagDigest(a.ETag), "", a)
	return nil
}

// lead checks that a delta applies to the client's table and leads to the target.
func (c *Client) lead(document []byte, target string) error {
	var d struct{ Base, Target string }
	if err := json.Unmarshal(document, &d); err != nil {
		return err
	}
	if d.Base != c.digest || d.Target != target || target == "" {
		return fmt.Errorf("it leads from %.8s to %.8s, and %.8s is held and %.8s is named", d.Base, d.Target, c.digest, target)
	}
	return nil
}
