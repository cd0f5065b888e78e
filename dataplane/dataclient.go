package dataplane

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/table"
)

// DataClient provides the applied tables of a Client to a proxy that loads routes like Skipper: LoadAll once, then LoadUpdate
// repeatedly, and LoadAll again after an error. It is safe for concurrent use, but remembers what it last returned, so it serves
// one proxy only. The caller must run the Client.
type DataClient struct {
	client *Client
	wait   time.Duration

	mu    sync.Mutex
	given *table.Table // guarded by mu; nil before the first LoadAll
}

// NewDataClient returns a DataClient. LoadAll waits up to wait for the first table; 0 means it does not wait.
func NewDataClient(c *Client, wait time.Duration) *DataClient {
	return &DataClient{client: c, wait: wait}
}

// LoadAll returns all routes of the applied table. If there is none yet, it waits; the error wraps ErrNoTable if the time for
// that has passed. The caller owns the routes.
func (d *DataClient) LoadAll() ([]*eskip.Route, error) {
	ctx, cancel := context.WithTimeout(context.Background(), d.wait)
	defer cancel()
	t, err := d.client.Wait(ctx)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var text strings.Builder
	text.Grow(t.Bytes())
	_, _ = t.WriteTo(&text) // a builder does not fail
	routes, err := eskip.Parse(text.String())
	if err != nil {
		return nil, fmt.Errorf("dataplane: table %s: %w", t.Digest(), err)
	}
	d.given = t
	return routes, nil
}

// LoadUpdate returns the changes since the last successful LoadAll or LoadUpdate: new or changed routes, and the ids of removed
// ones, both sorted by id. It does not wait; without changes it returns nil, nil, nil. Before the first LoadAll everything is
// new. After an error the next call reports the same changes again.
func (d *DataClient) LoadUpdate() (upserts []*eskip.Route, deletedIDs []string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.client.Current()
	if t == nil {
		return nil, nil, ErrNoTable
	}
	if d.given != nil && d.given.Digest() == t.Digest() {
		return nil, nil, nil
	}
	var old table.List
	if d.given != nil {
		old = d.given.Routes()
	}
	changed, deletedIDs := difference(old, t.Routes())
	if upserts, err = eskip.Parse(changed); err != nil {
		return nil, nil, fmt.Errorf("dataplane: changes to table %s: %w", t.Digest(), err)
	}
	d.given = t
	return upserts, deletedIDs, nil
}

// difference returns a document with the new or changed routes, and the ids of the removed ones, sorted by id. Each line of a
// table parses on its own, so any selection of lines does.
func difference(old, cur table.List) (document string, gone []string) {
	var b strings.Builder
	for was, is := range table.Changes(old, cur) {
		if is == nil {
			gone = append(gone, was.ID)
			continue
		}
		b.WriteString(is.Text)
		b.WriteByte('\n')
	}
	return b.String(), gone
}
