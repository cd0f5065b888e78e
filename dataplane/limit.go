package dataplane

import (
	"fmt"
	"runtime"
)

// The defaults of Config.MaxBytes.
const (
	// growth is how many times larger than the last table the next one may be.
	growth = 4
	// leastMaxBytes is the minimum limit, however small the last table is.
	leastMaxBytes = 64 << 20
	// memoryShare is the divisor of Config.Memory for one table.
	memoryShare = 4
)

// limit returns the current maximum size of a table in bytes: Config.MaxBytes, or a limit derived from the last table and the
// memory. A table of the size of the last one, plus half, is never too large because of the memory alone. While another table is
// held, which takes memory, too, the limit is lower.
func (c *Client) limit() int64 {
	var last, held int64
	if t := c.publisher.Table(); t != nil {
		last = int64(t.Bytes())
	}
	if h := c.publisher.Held(); h != nil {
		held = int64(h.Table.Bytes())
	}
	limit := c.cfg.MaxBytes
	if limit == 0 {
		limit = derivedLimit(last, c.cfg.Memory)
	}
	return max(min(limit, last+last/2), limit/2, limit-held)
}

func derivedLimit(last, memory int64) int64 {
	limit := int64(DefaultMaxBytes)
	if last > 0 {
		limit = max(growth*last, leastMaxBytes)
	}
	if memory > 0 {
		limit = min(limit, memory/memoryShare)
	}
	return max(limit, last+last/2)
}

// named adds the limit and the remedy to an error about a size.
func (c *Client) named(f *Error) *Error {
	if f.Reason == ReasonTooLarge {
		f.Err = fmt.Errorf("%w (limit %d bytes now; if the table is as large as it is meant to be, set --max-table-bytes and "+
			"the memory limit)", f.Err, c.limit())
	}
	return f
}

// largeDrop is how many dropped bytes justify a garbage collection.
const largeDrop = 8 << 20

// collect frees memory that was decoded in vain before the next attempt, which may take as much again. There is at most one
// attempt per interval.
func collect(dropped int64) {
	if dropped > largeDrop {
		runtime.GC()
	}
}
