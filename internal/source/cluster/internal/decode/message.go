package decode

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/routesrv/routesrv/kube"
)

// value is the value of a field: bytes of a length-delimited one, a number of any other.
type value struct {
	wire   protowire.Type
	bytes  []byte
	number uint64
}

// message walks the fields of a message, also the unknown ones, and stops at the first error. The message must consist of complete
// fields.
func message(raw []byte, f func(protowire.Number, value) error) error {
	for at := 0; at < len(raw); {
		field, wire, n := protowire.ConsumeTag(raw[at:])
		if n < 0 {
			return broken(raw[at:], n)
		}
		at += n
		v := value{wire: wire}
		switch wire {
		case protowire.BytesType:
			v.bytes, n = protowire.ConsumeBytes(raw[at:])
		case protowire.VarintType:
			v.number, n = protowire.ConsumeVarint(raw[at:])
		default:
			n = protowire.ConsumeFieldValue(field, wire, raw[at:])
		}
		if n < 0 {
			return broken(raw[at:], n)
		}
		at += n
		if err := f(field, v); err != nil {
			return err
		}
	}
	return nil
}

func broken(rest []byte, n int) error {
	return fmt.Errorf("protobuf, %d bytes before the end: %w", len(rest), protowire.ParseError(n))
}

// fields calls f for each length-delimited field of a message and skips other fields. The message must consist of complete fields.
func fields(raw []byte, f func(protowire.Number, []byte) error) error {
	return message(raw, func(field protowire.Number, v value) error {
		if v.wire != protowire.BytesType {
			return nil
		}
		return f(field, v.bytes)
	})
}

// count returns how often a message has a field, as far as the message is readable.
func count(raw []byte, wanted protowire.Number) (n int) {
	_ = message(raw, func(field protowire.Number, _ value) error {
		if field == wanted {
			n++
		}
		return nil
	})
	return n
}

// next adds an element to a slice. With the first one it makes room for all that the message has. An object whose elements are in several
// messages outgrows that: the elements move, so their strings must be in place.
func next[T any](t *kube.Texts, s *[]T, raw []byte, field protowire.Number) *T {
	if *s == nil {
		*s = make([]T, 0, count(raw, field))
	}
	if len(*s) == cap(*s) {
		t.Done()
	}
	*s = append(*s, *new(T))
	return &(*s)[len(*s)-1]
}

// want returns an error unless the value has the wire type that the field must have.
func (v value) want(wire protowire.Type) error {
	if v.wire != wire {
		return fmt.Errorf("protobuf: wire type %d, want %d", v.wire, wire)
	}
	return nil
}

// message walks the fields of a message in a field.
func (v value) message(f func(protowire.Number, value) error) error {
	if err := v.want(protowire.BytesType); err != nil {
		return err
	}
	return message(v.bytes, f)
}

// text reads a string.
func (v value) text(t *kube.Texts, at *string) error {
	t.Set(at, v.bytes)
	return v.want(protowire.BytesType)
}

// shared reads a string that many objects have.
func (v value) shared(t *kube.Texts, at *string) error {
	t.Share(at, v.bytes)
	return v.want(protowire.BytesType)
}

// int32 reads a number of 32 bits; a longer one loses its upper bits, as the format demands.
func (v value) int32(at *int) error {
	*at = int(int32(uint32(v.number)))
	return v.want(protowire.VarintType)
}

// bool reads a truth value.
func (v value) bool(at *bool) error {
	*at = v.number != 0
	return v.want(protowire.VarintType)
}
