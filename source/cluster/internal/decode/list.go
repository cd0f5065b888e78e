package decode

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/routesrv/routesrv/kube"
)

// ErrTooLarge reports that a body, or a part of one, exceeds its limit.
var ErrTooLarge = errors.New("the body is too large")

// head holds the fields of a list that are read, apart from its items.
type head struct {
	kind, apiVersion string
	resourceVersion  string
	more             string // the token for the rest of the list, if this is only one page
	hasMeta          bool   // a list in JSON had metadata
	noItems          bool   // a list in JSON without an array of items; in protobuf an empty list has no field for them
}

// check returns an error if the head is not the head of a list of the kind. A proxy between this process and the API server
// can answer 200 with some other object. Such an answer has no objects of the kind, so accepting it would remove all of them.
func (h *head) check(kind kube.Kind) error {
	list, version := string(kind)+"List", kind.APIVersion()
	switch {
	case h.kind != list:
		return fmt.Errorf("kind is %.40q, must be %s", h.kind, list)
	case h.apiVersion != version:
		return fmt.Errorf("API version is %.40q, must be %s", h.apiVersion, version)
	case h.resourceVersion == "":
		return errors.New("it has no metadata.resourceVersion")
	case h.noItems:
		return errors.New("it has no array of items")
	}
	return nil
}

// Walker walks lists, one after the other, and reuses its memory. The zero value is ready.
type Walker struct {
	in  *bufio.Reader
	buf []byte
}

const (
	// windowSize is the initial size of a buffer: it holds many objects, and fits into the cache of a processor core.
	windowSize = 64 << 10
	// keptBuffer is the largest buffer that a Walker keeps between two lists.
	keptBuffer = 1 << 20
)

// List calls item for each item of a list of objects of the kind, in order, and returns the revision of the list, 0
// if it has none. The bytes of an item are valid only during the call. An error means that the body is not one
// complete list of the kind; item may already have been called. Errors of the body are wrapped. List never holds a whole
// body in memory: it needs the size of the largest item.
func (w *Walker) List(media string, body io.Reader, kind kube.Kind, item func([]byte)) (kube.Revision, error) {
	head, err := w.walk(media, body, kind, item)
	if err != nil {
		return 0, err
	}
	if head.more != "" {
		return 0, errors.New("the body is only one page of a list, although no page was requested")
	}
	return head.revision(), nil
}

// Page returns the revision of a list when only one page of it was requested. It returns the same errors as [Walker.List].
func (w *Walker) Page(media string, body io.Reader, kind kube.Kind) (kube.Revision, error) {
	head, err := w.walk(media, body, kind, func([]byte) {})
	return head.revision(), err
}

func (w *Walker) walk(media string, body io.Reader, kind kube.Kind, item func([]byte)) (head head, err error) {
	if w.in == nil {
		w.in = bufio.NewReaderSize(nil, windowSize)
	}
	w.in.Reset(body)
	defer func() {
		if w.in.Reset(nil); cap(w.buf) > keptBuffer {
			w.buf = nil
		}
	}()
	switch {
	case media == MediaJSON:
		err = w.walkJSON(&head, item)
	case !HasProtobuf(kind):
		err = fmt.Errorf("content type %q: must be %s", media, MediaJSON)
	default:
		err = w.walkProtobuf(&head, item)
	}
	if err == nil {
		err = head.check(kind)
	}
	return head, err
}

// revision returns the resourceVersion as a number, or 0 if it is missing or opaque. Opaque versions have no order,
// so every list has to be consistent.
func (h *head) revision() kube.Revision {
	n, _ := Revision(h.resourceVersion)
	return n
}
