package proxymetrics

import "time"

// Patient returns the Reader with a timeout that a busy machine with the race detector does not reach while it parses megabytes.
func (r *Reader) Patient() *Reader {
	r.client.Timeout = 3 * time.Minute
	return r
}
