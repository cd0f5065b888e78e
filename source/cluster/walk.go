package cluster

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strconv"

	"github.com/routesrv/routesrv/kube"
	"google.golang.org/protobuf/encoding/protowire"
)

// listHead is what is read of a list besides its items.
type listHead struct {
	kind, apiVersion string
	resourceVersion  []byte
	more             []byte // the token for the rest of the list, if this is only a page of it
	noItems          bool   // a list in JSON without an array of items; in protobuf an empty list has no field for them
}

// check reports what the head lacks to be that of a list of the resource. Whatever stands between us and the API server
// can answer 200 with some other object, and a list that has nothing to do with the kind has no objects of the kind: it
// would take all of them away.
func (h *listHead) check(r *resource) error {
	switch {
	case h.kind != r.listKind():
		return fmt.Errorf("it is a %.40q, want a %s", h.kind, r.listKind())
	case h.apiVersion != r.apiVersion():
		return fmt.Errorf("it is of the API version %.40q, want %s", h.apiVersion, r.apiVersion())
	case len(h.resourceVersion) == 0:
		return errors.New("it has no metadata.resourceVersion")
	case h.noItems:
		return errors.New("it has no array of items")
	}
	return nil
}

// walk calls item for each item of the list in order and returns the revision of the list, 0 if it has none. The bytes
// of an item are valid during the call. An error means that the body is not one complete list of the resource; items may
// have been seen by then.
func walk(media string, body *window, r *resource, item func([]byte)) (kube.Revision, error) {
	head, err := walkPage(media, body, r, item)
	if err != nil {
		return 0, err
	}
	if len(head.more) != 0 {
		return 0, errors.New("it is one page of a list although no page was asked for")
	}
	return head.revision(), nil
}

// walkPage is walk for a list of which a page was asked for.
func walkPage(media string, body *window, r *resource, item func([]byte)) (head listHead, err error) {
	switch {
	case media == mediaJSON:
		err = walkJSON(body, &head, item)
	case r.decode == nil:
		err = fmt.Errorf("content type %q: want %s", media, mediaJSON)
	default:
		err = walkProtobuf(body, r.listKind(), &head, item)
	}
	if err == nil {
		err = head.check(r)
	}
	return head, err
}

// revision is the resourceVersion as a number; 0 if there is none, or if it is opaque: then there is no order, and every
// list has to be a consistent one.
func (h *listHead) revision() kube.Revision {
	n, err := strconv.ParseUint(string(h.resourceVersion), 10, 64)
	if err != nil {
		return 0
	}
	return kube.Revision(n)
}

// protobufMagic begins every protobuf body of the API; a runtime.Unknown follows.
var protobufMagic = []byte("k8s\x00")

// The fields of the messages that are walked. All lists of built-in kinds have the same two.
const (
	unknownTypeMeta, unknownRaw, unknownEncoding = 1, 2, 3
	typeMetaAPIVersion, typeMetaKind             = 1, 2
	listMetadata, listItems                      = 1, 2
	listMetaResourceVersion, listMetaContinue    = 2, 3
	objectMetadata                               = 1
	objectMetaName, objectMetaNamespace          = 1, 3
	objectMetaResourceVersion                    = 6
)

// walkProtobuf walks a list. The lengths in it have to add up to the last byte, so that a body which ends early shows.
func walkProtobuf(w *window, kind string, head *listHead, item func([]byte)) error {
	magic, err := w.take(uint64(len(protobufMagic)))
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
		value, err := w.take(size)
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

// walkItems walks the message that is the list and ends at the position.
func walkItems(w *window, end int64, head *listHead, item func([]byte)) error {
	for {
		field, size, ok, err := w.field(end)
		if err != nil || !ok {
			return err
		}
		value, err := w.take(size)
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

// behind says where in the body something is wrong.
func behind(w *window, err error) error {
	if broken := (*sourceError)(nil); errors.As(err, &broken) {
		return err
	}
	return fmt.Errorf("protobuf, behind byte %d: %w", w.position(), err)
}

// unlessEnds is the error, or nil if it says no more than that the body has ended.
func unlessEnds(err error) error {
	if errors.Is(err, errEnds) {
		return nil
	}
	return err
}

// typeOf reads the type that a body claims to be of.
func typeOf(typeMeta []byte) (apiVersion, kind string, err error) {
	err = fields(typeMeta, func(field protowire.Number, value []byte) error {
		switch field {
		case typeMetaAPIVersion:
			apiVersion = string(value)
		case typeMetaKind:
			kind = string(value)
		}
		return nil
	})
	return apiVersion, kind, err
}

// envelope takes a protobuf body of the API apart: the type that it claims and the message.
func envelope(body []byte) (apiVersion, kind string, raw []byte, err error) {
	if !bytes.HasPrefix(body, protobufMagic) {
		return "", "", nil, errors.New("it does not begin like protobuf of the Kubernetes API")
	}
	found := false
	err = fields(body[len(protobufMagic):], func(field protowire.Number, value []byte) (err error) {
		switch field {
		case unknownTypeMeta:
			apiVersion, kind, err = typeOf(value)
			return err
		case unknownRaw:
			if found {
				return errors.New("two messages in one body")
			}
			raw, found = value, true
		case unknownEncoding:
			if len(value) != 0 {
				return fmt.Errorf("unknown content encoding %.40q", value)
			}
		}
		return nil
	})
	if err == nil && !found {
		err = errors.New("no message in the body")
	}
	return apiVersion, kind, raw, err
}

// statusMessage returns the message of a body that is a Status object in protobuf.
func statusMessage(body []byte) ([]byte, bool) {
	_, kind, raw, err := envelope(body)
	return raw, err == nil && kind == "Status"
}

// fields calls f for each length-delimited field of a message; others are skipped. The fields have to fill the message.
func fields(message []byte, f func(protowire.Number, []byte) error) error {
	for at := 0; at < len(message); {
		field, wire, n := protowire.ConsumeTag(message[at:])
		if n < 0 {
			return fmt.Errorf("protobuf, %d bytes before the end: %w", len(message)-at, protowire.ParseError(n))
		}
		at += n
		if wire != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(field, wire, message[at:]); n < 0 {
				return fmt.Errorf("protobuf, %d bytes before the end: %w", len(message)-at, protowire.ParseError(n))
			}
			at += n
			continue
		}
		value, n := protowire.ConsumeBytes(message[at:])
		if n < 0 {
			return fmt.Errorf("protobuf, %d bytes before the end: %w", len(message)-at, protowire.ParseError(n))
		}
		at += n
		if err := f(field, value); err != nil {
			return err
		}
	}
	return nil
}
