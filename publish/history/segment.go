package history

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/klauspost/compress/zstd"

	"github.com/routesrv/routesrv/api"
)

// A segment is a sequence of frames. Each is its length and a CRC-32C, both big-endian with 4 bytes, and the JSON form of a
// frame, compressed by zstd.
const (
	headerSize      = 8
	maxFrame        = 64 << 20 // bytes of one frame, compressed or not
	objectsPerFrame = 200
	suffix          = ".history"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// frame is a part of an entry, or of all objects at the beginning of a segment.
type frame struct {
	N       uint64            `json:"n"` // of the entry
	Base    bool              `json:"base,omitempty"`
	Entry   *api.HistoryEntry `json:"entry,omitempty"`
	Objects []Version         `json:"objects,omitempty"`
}

// segment is a file, or memory if it has no path. It is not safe for concurrent use.
type segment struct {
	path   string
	file   *os.File // open for appending; nil for one that is only read
	memory []byte   // its content if it has no path; appended bytes never change
	first  uint64   // the entry whose objects it has in full
	base   int64    // bytes of all objects at its beginning
	size   int64
	closed bool // accepts no frames
}

func (s *segment) name() string {
	if s.path == "" {
		return "memory"
	}
	return s.path
}

// newEncoder returns the encoder of frames. Its options limit its memory, because a server keeps it permanently.
func newEncoder() *zstd.Encoder {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(256<<10), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic(err) // the options are constants
	}
	return w
}

// decompress returns the text of a frame.
func decompress(body []byte) ([]byte, error) {
	r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxFrame))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return r.DecodeAll(body, nil)
}

// openSegments returns the segments in a folder, the oldest first. All but the last are closed.
func openSegments(folder string, log *slog.Logger) (all []*segment) {
	if folder == "" {
		return nil
	}
	files, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) { // the last-known-good file reports the folder
		log.Error(LogFailed, "path", folder, "error", err)
	}
	for _, f := range files { // sorted by name
		if strings.HasSuffix(f.Name(), suffix) && f.Type().IsRegular() {
			info, err := f.Info()
			if err != nil {
				continue // removed meanwhile
			}
			all = append(all, &segment{path: filepath.Join(folder, f.Name()), size: info.Size(), closed: true})
		}
	}
	if k := len(all); k > 0 {
		last := all[k-1]
		if last.file, err = os.OpenFile(last.path, os.O_WRONLY|os.O_APPEND|syscall.O_NOFOLLOW, 0); err != nil {
			log.Error(LogFailed, "path", last.path, "error", err)
		}
		last.closed = err != nil
	}
	return all
}

// newSegment begins a segment that starts with an entry.
func newSegment(folder string, n uint64) (*segment, error) {
	s := &segment{first: n, path: filepath.Join(folder, fmt.Sprintf("%012d%s", n, suffix))}
	err := os.MkdirAll(folder, 0o700)
	if err == nil {
		// A file that another process left there for the same entry is torn: otherwise it would have been read.
		s.file, err = os.OpenFile(s.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	}
	return s, err
}

// write appends a frame, and returns where it is.
func (s *segment) write(encoder *zstd.Encoder, f *frame) (offset int64, err error) {
	text, err := json.Marshal(f)
	if err != nil {
		return 0, err
	}
	data := encoder.EncodeAll(text, make([]byte, headerSize))
	body := data[headerSize:]
	if len(text) > maxFrame {
		return 0, fmt.Errorf("entry %d has %d bytes, the limit is %d", f.N, len(text), maxFrame)
	}
	binary.BigEndian.PutUint32(data, uint32(len(body)))
	binary.BigEndian.PutUint32(data[4:], crc32.Checksum(body, castagnoli))
	offset = s.size
	if s.path == "" {
		s.memory = append(s.memory, data...)
	} else if _, err := s.file.Write(data); err != nil {
		return 0, err
	}
	s.size += int64(len(data))
	return offset, nil
}

func (s *segment) sync() error {
	if s.file == nil {
		return nil
	}
	return s.file.Sync()
}

func (s *segment) close() error {
	s.closed = true
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

// reader returns the content from an offset on.
func (s *segment) reader(offset int64) (io.ReadCloser, error) {
	if s.path == "" {
		return io.NopCloser(bytes.NewReader(s.memory[offset:])), nil
	}
	f, err := os.OpenFile(s.path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// read reads a frame.
func (s *segment) read(offset int64) (*frame, error) {
	r, err := s.reader(offset)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	f, _, err := readFrame(r)
	return f, err
}

// scan calls yield for each frame up to the first bad one, for which it returns an error.
func (s *segment) scan(yield func(offset int64, f *frame)) error {
	r, err := s.reader(0)
	if err != nil {
		return err
	}
	defer r.Close()
	for offset := int64(0); offset < s.size; {
		f, size, err := readFrame(r)
		if err != nil {
			s.size = offset // of the valid frames
			return fmt.Errorf("after %d bytes: %w", offset, err)
		}
		if offset == 0 {
			s.first = f.N
		}
		if f.Base {
			s.base = offset + size
		}
		yield(offset, f)
		offset += size
	}
	return nil
}

// readFrame reads the next frame, and returns its size with the header.
func readFrame(r io.Reader) (*frame, int64, error) {
	var header [headerSize]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return nil, 0, err
	}
	n := binary.BigEndian.Uint32(header[:])
	if n > maxFrame {
		return nil, 0, fmt.Errorf("a frame of %d bytes, the limit is %d", n, maxFrame)
	}
	body, err := io.ReadAll(io.LimitReader(r, int64(n))) // a wrong length in the header allocates nothing
	if err == nil && len(body) < int(n) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, 0, err
	}
	if crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(header[4:]) {
		return nil, 0, errors.New("wrong checksum")
	}
	text, err := decompress(body)
	if err != nil {
		return nil, 0, err
	}
	f := new(frame)
	if err := json.Unmarshal(text, f); err != nil {
		return nil, 0, err
	}
	for i := range f.Objects {
		if err := f.Objects[i].check(); err != nil {
			return nil, 0, err
		}
	}
	return f, headerSize + int64(n), nil
}

// check detects versions under a wrong name, which files from elsewhere may contain.
func (v *Version) check() error {
	if v.Ingress != nil && v.Ingress.Ref() != v.Ref || v.RouteGroup != nil && v.RouteGroup.Ref() != v.Ref || v.DefaultFilters != nil && v.Ref != filtersRef {
		return fmt.Errorf("another object under the name of %s", v.Ref)
	}
	return nil
}

// segment returns the segment for entry n, with all objects at its beginning. It is in memory if the folder is not writable. The
// caller holds mu.
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

// base copies the last version of every known object to a segment. The caller holds mu.
func (h *History) base(s *segment, n uint64) error {
	b := batch{h: h, segment: s, frame: frame{N: n, Base: true}}
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
				if last := known[len(known)-1]; last.segment == from && last.offset == offset && last.id != (identity{}) {
					b.add(v)
				}
			}
			if b.err != nil {
				return b.err
			}
		}
	}
	if len(b.frame.Objects) > 0 {
		b.flush()
	}
	s.base = s.size
	return b.err
}

// shrink removes the oldest segments while the total size exceeds the limit. The caller holds mu.
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
