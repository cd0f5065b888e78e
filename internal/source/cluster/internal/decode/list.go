package decode

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strconv"

	"github.com/routesrv/routesrv/kube"
	"google.golang.org/protobuf/encoding/protowire"
)

// head holds everything that is read of a list besides its items.
type head struct {
	kind, apiVersion string
	resourceVersion  []byte
	more             []byte // the token for the rest of the list, if this is only a page of it
	noItems          bool   // a list in JSON without an array of items; in protobuf an empty list has no field for them
}

// check returns an error if the head is not the head of a list of the resource. A proxy between this process and the
// API server can answer 200 with some other object. Such an answer has no objects of the kind, so accepting it would
// remove all of them.
func (h *head) check(t Type) error {
	switch {
	case h.kind != t.listKind():
		return fmt.Errorf("it is a %.40q, want a %s", h.kind, t.listKind())
	case h.apiVersion != t.APIVersion:
		return fmt.Errorf("it is of the API version %.40q, want %s", h.apiVersion, t.APIVersion)
	case len(h.resourceVersion) == 0:
		return errors.New("it has no metadata.resourceVersion")
	case h.noItems:
		return errors.New("it has no array of items")
	}
	return nil
}

// List calls item for each item of a list of objects of the type, in order, and returns the revision of the list, 0
// if it has none. The bytes of an item are valid only during the call. An error means that the body is not one
// complete list of the type; item may already have been called. The error wraps [SourceError] if the body could not
// be read.
func List(media string, body *Window, t Type, item func([]byte)) (kube.Revision, error) {
	head, err := walk(media, body, t, item)
	if err != nil {
		return 0, err
	}
	if len(head.more) != 0 {
		return 0, errors.New("it is one page of a list although no page was asked for")
	}
	return head.revision(), nil
}

// Page returns the revision of a list of which only one page was requested. Its errors are those of [List].
func Page(media string, body *Window, t Type) (kube.Revision, error) {
	head, err := walk(media, body, t, func([]byte) {})
	return head.revision(), err
}

func walk(media string, body *Window, t Type, item func([]byte)) (head head, err error) {
	switch {
	case media == MediaJSON:
		err = walkJSON(body, &head, item)
	case !HasProtobuf(t.Kind):
		err = fmt.Errorf("content type %q: want %s", media, MediaJSON)
	default:
		err = walkProtobuf(body, t.listKind(), &head, item)
	}
	if err == nil {
		err = head.check(t)
	}
	return head, err
}

// revision returns the resourceVersion as a number, or 0 if it is missing or opaque. Opaque versions have no order,
// so every list has to be consistent.
func (h *head) revision() kube.Revision {
	n, err := strconv.ParseUint(string(h.resourceVersion), 10, 64)
	if err != nil {
		return 0
	}
	return kube.Revision(n)
}

// walkProtobuf walks a list. Its lengths must add up to the last byte, which detects a body that ends early.
func walkProtobuf(w *Window, kind string, head *head, item func([]byte)) error {
	magic, err := w.consume(uint64(len(protobufMagic)))
	if err != nil || !bytes.Equal(magic, protobufMagic) {
		return cmp.Or(unlessEnds(err), errors.New("it does not begin like protobuf of the Kubernetes API"))
	}
	found := false
	for {
		field, size, ok, err := w.field(-1)
		switch {
		case err != nil:
			return behind(w, err)
		case !ok && !found:
			return errors.New("no message in the body")
		case !ok && head.kind != kind:
			return fmt.Errorf("it is a %.40q, want a %s", head.kind, kind)
		case !ok:
			return nil
		case field == unknownRaw && found:
			return errors.New("two messages in one body")
		case field == unknownRaw && head.kind != kind:
			return fmt.Errorf("it is a %.40q, want a %s", head.kind, kind)
		case field == unknownRaw:
			found = true
			if err := walkItems(w, w.position()+int64(size), head, item); err != nil {
				return behind(w, err)
			}
			continue
		}
		value, err := w.consume(size)
		if err != nil {
			return behind(w, err)
		}
		switch field {
		case unknownTypeMeta:
			head.apiVersion, head.kind, err = typeOf(value)
		case unknownEncoding:
			if len(value) != 0 {
				err = fmt.Errorf("unknown content encoding %.40q", value)
			}
		}
		if err != nil {
			return err
		}
	}
}

// walkItems walks the list message, which ends at position end.
func walkItems(w *Window, end int64, head *head, item func([]byte)) error {
	for {
		field, size, ok, err := w.field(end)
		if err != nil || !ok {
			return err
		}
		value, err := w.consume(size)
		if err != nil {
			return err
		}
		switch field {
		case listItems:
			item(value)
		case listMetadata:
			err = fields(value, func(field protowire.Number, value []byte) error {
				switch field {
				case listMetaResourceVersion:
					head.resourceVersion = bytes.Clone(value)
				case listMetaContinue:
					head.more = bytes.Clone(value)
				}
				return nil
			})
		}
		if err != nil {
			return err
		}
	}
}

// behind adds the position in the body to an error.
func behind(w *Window, err error) error {
	if broken := (*SourceError)(nil); errors.As(err, &broken) {
		return err
	}
	return fmt.Errorf("protobuf, behind byte %d: %w", w.position(), err)
}

// unlessEnds returns the error, or nil if it only says that the body has ended.
func unlessEnds(err error) error {
	if errors.Is(err, errEnds) {
		return nil
	}
	return err
}
