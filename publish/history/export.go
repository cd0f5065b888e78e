package history

import (
	"errors"
	"fmt"
	"io"
	"slices"
)

// maxExport limits what a replica takes from another one, in bytes.
const maxExport = 64 << 20

// Export writes the newest segments, as they are in files. Segments that are appended to meanwhile are cut behind a frame.
func (h *History) Export(w io.Writer) error {
	unlock := h.lock()
	var newest []*segment
	left := int64(maxExport)
	for _, s := range slices.Backward(h.segments) {
		if left -= s.size; left < 0 {
			break
		}
		newest = slices.Insert(newest, 0, s)
	}
	var parts []io.Reader
	for _, s := range newest {
		r, err := s.reader(0)
		if err != nil {
			unlock()
			return fmt.Errorf("history: read %s: %w", s.name(), err)
		}
		defer r.Close()
		parts = append(parts, io.LimitReader(r, s.size))
	}
	unlock()
	if _, err := io.Copy(w, io.MultiReader(parts...)); err != nil {
		return fmt.Errorf("history: pass on: %w", err)
	}
	return nil
}

// Empty reports whether the history has no entry.
func (h *History) Empty() bool {
	defer h.lock()()
	return len(h.entries) == 0
}

// Import takes over what another replica has exported. It must come before the first Record, and does nothing if the history has entries. What follows a
// frame that is not valid is left out; the error says so.
func (h *History) Import(r io.Reader) error {
	defer h.lock()()
	if len(h.entries) > 0 {
		return nil
	}
	r = io.LimitReader(r, maxExport)
	var s *segment
	for {
		f, _, err := readFrame(r)
		if err == nil && s == nil {
			s, err = h.segment(f.N)
		}
		if err == nil {
			err = h.append(s, f)
		}
		switch {
		case errors.Is(err, io.EOF):
			if s != nil {
				return s.sync()
			}
			return errors.New("it has no history")
		case err != nil:
			return fmt.Errorf("history of another replica: %w", err)
		}
		if f.Base && f.Entry == nil && s.base == 0 {
			s.base = s.size
		}
	}
}
