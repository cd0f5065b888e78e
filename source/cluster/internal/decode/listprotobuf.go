package decode

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// frames reads the length-delimited fields of a protobuf message from a stream, and skips the others.
type frames struct {
	*Walker
	at int64 // bytes read so far
}

// walkProtobuf walks a list. Its lengths must add up to the last byte, which detects a body that ends early.
func (w *Walker) walkProtobuf(head *head, item func([]byte)) error {
	f := &frames{Walker: w}
	magic, err := f.bytes(uint64(len(protobufMagic)))
	if err != nil || !bytes.Equal(magic, protobufMagic) {
		return errors.Join(errors.New("the body does not begin with the protobuf prefix of the Kubernetes API"), err)
	}
	found := false
	err = f.fields(-1, func(field protowire.Number, size uint64) error {
		if field == unknownRaw {
			if found {
				return errors.New("two messages in one body")
			}
			found = true
			return f.list(size, head, item)
		}
		value, err := f.bytes(size)
		if err != nil {
			return err
		}
		switch {
		case field == unknownTypeMeta:
			var t runtime.TypeMeta
			err = t.Unmarshal(value)
			head.apiVersion, head.kind = t.APIVersion, t.Kind
		case field == unknownEncoding && size != 0:
			err = fmt.Errorf("unknown content encoding %.40q", value)
		}
		return err
	})
	if err == nil && !found {
		err = errors.New("no message in the body")
	}
	if err != nil {
		return fmt.Errorf("protobuf, after byte %d: %w", f.at, err)
	}
	return nil
}

// list walks the list message, which has the size.
func (f *frames) list(size uint64, head *head, item func([]byte)) error {
	if size > 1<<62 {
		return errors.New("field length overflows")
	}
	return f.fields(f.at+int64(size), func(field protowire.Number, size uint64) error {
		value, err := f.bytes(size)
		switch {
		case err != nil:
			return err
		case field == listItems:
			item(value)
		case field == listMetadata:
			var meta metav1.ListMeta
			err = meta.Unmarshal(value)
			head.resourceVersion, head.more = meta.ResourceVersion, meta.Continue
		}
		return err
	})
}

// fields calls f for each field of a message that ends at a position, or, if that is negative, with the body. f must
// read the field.
func (f *frames) fields(end int64, field func(protowire.Number, uint64) error) error {
	for end < 0 || f.at < end {
		tag, err := binary.ReadUvarint(f)
		if errors.Is(err, io.EOF) && end < 0 {
			return nil
		}
		number, wire := protowire.DecodeTag(tag)
		size := uint64(0)
		switch {
		case err != nil:
		case number < protowire.MinValidNumber:
			err = fmt.Errorf("field number %d", number)
		case wire == protowire.BytesType, wire == protowire.VarintType:
			size, err = binary.ReadUvarint(f)
		case wire == protowire.Fixed32Type:
			size = 4
		case wire == protowire.Fixed64Type:
			size = 8
		default:
			err = fmt.Errorf("wire type %d", wire)
		}
		switch {
		case err != nil:
		case end >= 0 && f.at > end, end >= 0 && wire != protowire.VarintType && size > uint64(end-f.at):
			err = errors.New("field is longer than its message")
		case wire == protowire.BytesType:
			err = field(number, size)
		case wire != protowire.VarintType:
			_, err = f.bytes(size)
		}
		if err != nil {
			return unexpected(err)
		}
	}
	return nil
}

// unexpected returns io.ErrUnexpectedEOF for io.EOF in the middle of a message.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// ReadByte implements [io.ByteReader].
func (f *frames) ReadByte() (byte, error) {
	b, err := f.in.ReadByte()
	if err == nil {
		f.at++
	}
	return b, err
}

// bytes reads n bytes, which are valid until the next call. Whatever n is, it allocates at most as many bytes as the body has.
func (f *frames) bytes(n uint64) ([]byte, error) {
	if n <= uint64(f.in.Size()) {
		b, err := f.in.Peek(int(n))
		if err != nil {
			return nil, unexpected(err)
		}
		_, err = f.in.Discard(int(n))
		f.at += int64(n)
		return b, err
	}
	f.buf = f.buf[:0]
	for uint64(len(f.buf)) < n {
		from := len(f.buf)
		f.buf = append(f.buf, make([]byte, min(n-uint64(from), windowSize))...)
		m, err := io.ReadFull(f.in, f.buf[from:])
		if f.at += int64(m); err != nil {
			return nil, unexpected(err)
		}
	}
	return f.buf, nil
}

// protobufMagic begins every protobuf body of the API; a runtime.Unknown follows.
var protobufMagic = []byte("k8s\x00")

// Field numbers of the messages that are walked. All lists of built-in kinds have the same two fields.
const (
	unknownTypeMeta, unknownRaw, unknownEncoding = 1, 2, 3
	listMetadata, listItems                      = 1, 2
)

// Status decodes the body of an error answer: the readable part of a Status object in either encoding, or any text,
// which becomes the message.
func Status(body []byte) (status metav1.Status) {
	var u runtime.Unknown
	if raw, ok := bytes.CutPrefix(body, protobufMagic); ok && u.Unmarshal(raw) == nil && u.Kind == "Status" {
		_ = status.Unmarshal(u.Raw) // keep whatever was readable
	} else if json.Unmarshal(body, &status) != nil {
		status.Message = string(body)
	}
	return status
}
