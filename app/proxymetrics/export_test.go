package proxymetrics

import (
	"io"
	"slices"
	"time"

	"github.com/routesrv/routesrv/fleet"
)

// Patient returns the Reader with a timeout that a busy machine with the race detector does not reach while it parses megabytes.
func (r *Reader) Patient() *Reader {
	r.client.Timeout = 3 * time.Minute
	return r
}

// Parse reads all metrics that a Reader may want.
func Parse(r io.Reader) (*fleet.Figures, error) {
	return parse(r, slices.Concat(families, routeFamilies))
}
