package history

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/kube"
)

// ErrNoEntry means that the history has no entry with a number: it never had, or it is too old.
var ErrNoEntry = errors.New("no such entry in the history")

// Entry returns the entry with a number. The error is [ErrNoEntry].
func (h *History) Entry(n uint64) (api.HistoryEntry, error) {
	defer h.lock()()
	i, found := slices.BinarySearchFunc(h.entries, n, func(e api.HistoryEntry, n uint64) int { return cmp.Compare(e.N, n) })
	if !found {
		return api.HistoryEntry{}, fmt.Errorf("entry %d: %w", n, ErrNoEntry)
	}
	return h.entries[i], nil
}

// Versions returns the versions of objects that were served as of an entry. An object that did not exist then, but did at some
// other time, has a version without an object. The error is [ErrNoEntry], or describes what could not be read.
func (h *History) Versions(n uint64, wanted func(kube.Ref) bool) (map[kube.Ref]*Version, error) {
	if _, err := h.Entry(n); err != nil {
		return nil, err
	}
	defer h.lock()()
	found := make(map[kube.Ref]*Version)
	places := make(map[kube.Ref]place)
	for ref, known := range h.versions {
		if !wanted(ref) {
			continue
		}
		found[ref] = &Version{Ref: ref}
		for _, p := range slices.Backward(known) {
			if p.n <= n {
				places[ref] = p
				break
			}
		}
	}
	return found, read(found, places)
}

// read decodes the versions at some places.
func read(found map[kube.Ref]*Version, places map[kube.Ref]place) error {
	type frameAt struct {
		segment *segment
		offset  int64
	}
	frames := make(map[frameAt]bool)
	for _, p := range places {
		if p.id != (identity{}) {
			frames[frameAt{p.segment, p.offset}] = true
		}
	}
	for at := range frames {
		f, err := at.segment.read(at.offset)
		if err != nil {
			return fmt.Errorf("history: read %s at %d: %w", at.segment.name(), at.offset, err)
		}
		for i := range f.Objects {
			v := &f.Objects[i]
			if p := places[v.Ref]; p.segment == at.segment && p.offset == at.offset {
				found[v.Ref] = v
			}
		}
	}
	return nil
}

// Intent returns the intent that was served as of an entry. It returns the same errors as Versions.
func (h *History) Intent(n uint64) (*kube.Intent, error) {
	versions, err := h.Versions(n, func(kube.Ref) bool { return true })
	if err != nil {
		return nil, err
	}
	var intent kube.Intent
	for _, v := range versions {
		switch {
		case v.Ingress != nil:
			intent.Ingresses = append(intent.Ingresses, v.Ingress)
		case v.RouteGroup != nil:
			intent.RouteGroups = append(intent.RouteGroups, v.RouteGroup)
		case v.DefaultFilters != nil:
			intent.DefaultFilters = v.DefaultFilters
		}
	}
	return &intent, nil
}

// Changed returns the last served versions of the objects that differ from the snapshot; nil for an object that was not served.
// It is used when a process starts: see publish.Config. Unreadable versions are logged and left out. known is false for an empty
// history.
func (h *History) Changed(newest *kube.Snapshot) (_ map[kube.Ref]kube.Object, known bool) {
	changed := make(map[kube.Ref]kube.Object)
	places := make(map[kube.Ref]place)
	seen := make(map[kube.Ref]bool)
	defer h.lock()()
	if len(h.entries) == 0 {
		return nil, false
	}
	h.each(&newest.Intent, func(v Version) {
		ref := v.Ref
		seen[ref] = true
		switch last := h.lastOf(ref); {
		case ref == filtersRef, last.id == identityOf(&v):
		case last.id == identity{}:
			changed[ref] = nil
		default:
			places[ref] = last
		}
	})
	for ref, known := range h.versions {
		if last := known[len(known)-1]; !seen[ref] && last.id != (identity{}) {
			places[ref] = last
		}
	}
	found := make(map[kube.Ref]*Version)
	if err := read(found, places); err != nil {
		h.log.Error(LogFailed, "error", err)
	}
	for ref, v := range found {
		changed[ref] = nil
		if o := v.Object(); o != nil {
			changed[ref] = o
		}
	}
	return changed, true
}

// Same reports whether two versions are the same, except for when and by whom they were written. nil means that the object does
// not exist.
func (v *Version) Same(other *Version) bool {
	if other == nil {
		other = &Version{Ref: v.Ref}
	}
	return identityOf(v) == identityOf(other)
}

// VersionsOf returns the objects of an intent as they would be stored.
func (h *History) VersionsOf(i *kube.Intent) map[kube.Ref]*Version {
	found := make(map[kube.Ref]*Version, len(i.Ingresses)+len(i.RouteGroups)+1)
	h.each(i, func(v Version) { found[v.Ref] = &v })
	return found
}

// Name returns a name of a version that is the same on all replicas, which number their entries differently:
// KIND/NAMESPACE/NAME@IDENTITY, with "-" as the identity of an object that does not exist.
func (v *Version) Name() string {
	id := "-"
	if known := identityOf(v); known != (identity{}) {
		id = hex.EncodeToString(known[:])
	}
	return fmt.Sprintf("%s/%s/%s@%s", v.Kind, v.Namespace, v.Ref.Name, id)
}

// Find returns the version with a name. It returns an error if the name is invalid, or if the history does not have that version.
func (h *History) Find(name string) (*Version, error) {
	object, text, found := strings.Cut(name, "@")
	parts := strings.Split(object, "/")
	if !found || len(parts) != 3 {
		return nil, fmt.Errorf("version %q: must be KIND/NAMESPACE/NAME@IDENTITY", name)
	}
	v := &Version{Ref: kube.Ref{Kind: kube.Kind(parts[0]), Namespace: parts[1], Name: parts[2]}}
	if text == "-" {
		return v, nil
	}
	var id identity
	if raw, err := hex.DecodeString(text); err != nil || copy(id[:], raw) != len(id) || len(raw) != len(id) {
		return nil, fmt.Errorf("version %q: must be KIND/NAMESPACE/NAME@IDENTITY", name)
	}
	defer h.lock()()
	for _, p := range slices.Backward(h.versions[v.Ref]) {
		if p.id == id {
			versions := map[kube.Ref]*Version{}
			err := read(versions, map[kube.Ref]place{v.Ref: p})
			return versions[v.Ref], err
		}
	}
	return nil, fmt.Errorf("%s at this version: %w", v.Ref, ErrNoEntry)
}

// maxExport limits an export accepted from another replica, in bytes.
const maxExport = 64 << 20

// Export writes the newest segments in the form of their files. Segments that are appended to meanwhile are cut at the end of a
// frame.
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

// Import loads the export of another replica. It must be called before the first Record, and does nothing if the history has
// entries. At the first invalid frame it stops and returns an error.
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
