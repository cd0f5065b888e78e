package dataplane

import (
	"fmt"
	"runtime"
)

// What Config.MaxBytes is if it is not set.
const (
	// growth is how many times larger than the last table the next may be.
	growth = 4
	// leastMaxBytes is what may come however small the last table is.
	leastMaxBytes = 64 << 20
	// memoryShare is the part of Config.Memory that one table may take.
	memoryShare = 4
)

// limit is the most bytes that a table may have now: Config.MaxBytes, or what follows from the last table and from the
// memory. A table of the size of the last one, and half as much again, is never too large by itself. While another table is
// held, which takes memory, too, there is less room.
func (c *Client) limit() int64 {
	var last, held int64
	if t := c.gate.Table(); t != nil {
		last = int64(t.Bytes())
	}
	if h := c.gate.Held(); h != nil {
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

// named gives an error about a size the limit and what to do.
func (c *Client) named(f *Error) *Error {
	if f.Reason == ReasonTooLarge {
		f.Err = fmt.Errorf("%w (limit %d bytes now; if the table is as large as it is meant to be, set --max-table-bytes and "+
			"the memory limit)", f.Err, c.limit())
	}
	return f
}

// largeDrop is how much has to be dropped for a collection of garbage of its own.
const largeDrop = 8 << 20

// collect frees what was decoded for nothing before the next attempt comes, which may take as much again. There is one
// attempt in an interval at most.
func collect(dropped int64) {
	if dropped > largeDrop {
		runtime.GC()
	}
}
