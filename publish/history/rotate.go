package history

import (
	"errors"
	"os"
	"slices"
	"syscall"

	"github.com/routesrv/routesrv/internal/api"
)

// segment returns the segment for entry n, with all objects at its beginning: in memory, if the folder takes none. The caller holds mu.
func (h *History) segment(n uint64) (*segment, error) {
	if k := len(h.segments); k > 0 {
		last := h.segments[k-1]
		if !last.closed && last.size < max(h.cfg.Limit/segments, 4*last.base) {
			return last, nil
		}
		h.close(last)
	}
	s := &segment{first: n}
	if h.cfg.Folder != "" && !h.memory {
		on, err := newSegment(h.cfg.Folder, n)
		switch {
		case err == nil:
			s = on
		case !errors.Is(err, syscall.ENOTDIR): // the last-known-good file reports the folder
			h.log.Error(LogFailed, "path", on.path, "error", err)
		}
	}
	h.memory = false
	h.segments = append(h.segments, s)
	return s, h.base(s, n)
}

func (h *History) close(s *segment) {
	if err := s.close(); err != nil && !errors.Is(err, os.ErrClosed) {
		h.log.Error(LogFailed, "path", s.name(), "error", err)
	}
}

// append writes a frame and remembers where it is. The caller holds mu.
func (h *History) append(s *segment, f *frame) error {
	offset, err := s.write(h.encoder, f)
	if err == nil {
		h.index(s, offset, f)
	}
	return err
}

// base writes the last version of every object known so far to a segment, from where it is now. The caller holds mu.
func (h *History) base(s *segment, n uint64) error {
	var part []Version
	flush := func() error {
		if len(part) == 0 {
			return nil
		}
		err := h.append(s, &frame{N: n, Base: true, Objects: part})
		part = nil
		return err
	}
	byPlace := make(map[*segment][]int64)
	for _, known := range h.versions {
		last := known[len(known)-1]
		byPlace[last.segment] = append(byPlace[last.segment], last.offset)
	}
	for from, offsets := range byPlace {
		slices.Sort(offsets)
		for _, offset := range slices.Compact(offsets) {
			f, err := from.read(offset)
			if err != nil {
				h.log.Error(LogFailed, "path", from.name(), "error", err)
				continue
			}
			for _, v := range f.Objects {
				known := h.versions[v.Ref]
				if last := known[len(known)-1]; last.segment != from || last.offset != offset || last.id == (identity{}) {
					continue
				}
				if part = append(part, v); len(part) == objectsPerFrame {
					if err := flush(); err != nil {
						return err
					}
				}
			}
		}
	}
	err := flush()
	s.base = s.size
	return err
}

// shrink removes the oldest segments while all together have more than the limit. The caller holds mu.
func (h *History) shrink() {
	total := int64(0)
	for _, s := range h.segments {
		total += s.size
	}
	for len(h.segments) > 1 && (total > h.cfg.Limit || len(h.entries) > maxEntries) {
		old := h.segments[0]
		h.segments = h.segments[1:]
		total -= old.size
		if old.path != "" {
			if err := os.Remove(old.path); err != nil {
				h.log.Error(LogFailed, "path", old.path, "error", err)
			}
		}
		h.forget(old)
	}
}

// forget forgets the versions in a segment that was removed, and the entries before the next one. The caller holds mu.
func (h *History) forget(old *segment) {
	for ref, known := range h.versions {
		known = slices.DeleteFunc(known, func(p place) bool { return p.segment == old })
		if len(known) == 0 || len(known) == 1 && known[0].id == (identity{}) {
			delete(h.versions, ref)
		} else {
			h.versions[ref] = known
		}
	}
	first := h.segments[0].first
	h.entries = slices.DeleteFunc(h.entries, func(e api.HistoryEntry) bool { return e.N < first })
}

// Close closes the files.
func (h *History) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.segments {
		if !s.closed {
			h.close(s)
		}
	}
}
