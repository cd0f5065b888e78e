package decode

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/routesrv/routesrv/kube"
)

// field is a length-delimited field.
func field[T string | []byte](number protowire.Number, value T) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), []byte(value))
}

// claims is the beginning of a length-delimited field that says it has so many bytes.
func claims(number protowire.Number, size uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, number, protowire.BytesType), size)
}

// other is a field of another wire type.
func other(number protowire.Number, wire protowire.Type, value ...byte) []byte {
	return append(protowire.AppendTag(nil, number, wire), value...)
}

// body is a list of Ingresses whose message is made of the parts.
func body(parts ...[]byte) []byte {
	typeMeta := append(field(1, "networking.k8s.io/v1"), field(2, "IngressList")...)
	return slices.Concat(protobufMagic, field(unknownTypeMeta, typeMeta), field(unknownRaw, slices.Concat(parts...)))
}

// walkedItems walks a body.
func walkedItems(b []byte) (items []string, revision string, err error) {
	var h head
	err = walkedFrames(bytes.NewReader(b), &h, func(raw []byte) { items = append(items, string(raw)) })
	return items, h.resourceVersion, err
}

var metadata = field(listMetadata, field(2, "7"))

func TestBrokenProtobufIsRefused(t *testing.T) {
	const huge = 1 << 63
	tenBytes := bytes.Repeat([]byte{0xff}, 11) // a number has at most ten
	for name, b := range map[string][]byte{
		"an item longer than the list":        append(body(metadata, claims(listItems, 9), []byte("12345678")), "more of the body"...),
		"an item one byte too long":           append(body(metadata, claims(listItems, 2), []byte("x")), 0),
		"an item longer than the body":        body(metadata, claims(listItems, 1<<20), []byte("x")),
		"an item of a negative length":        body(metadata, claims(listItems, 1<<64-1), []byte("x")),
		"an item of half of all lengths":      body(metadata, claims(listItems, huge), []byte("x")),
		"the list is longer than the body":    append(slices.Clone(protobufMagic), claims(unknownRaw, 1<<20)...),
		"the list has a negative length":      append(slices.Clone(protobufMagic), claims(unknownRaw, 1<<64-1)...),
		"a number of eleven bytes":            body(metadata, tenBytes),
		"a length of eleven bytes":            body(metadata, protowire.AppendTag(nil, listItems, protowire.BytesType), tenBytes),
		"the field number 0":                  body(metadata, []byte{0x02, 0}),
		"a group begins":                      body(metadata, other(9, protowire.StartGroupType)),
		"a group ends":                        body(metadata, other(9, protowire.EndGroupType)),
		"the wire type 6":                     body(metadata, other(9, 6)),
		"the wire type 7":                     body(metadata, other(9, 7)),
		"four bytes that are three":           body(metadata, other(9, protowire.Fixed32Type, 1, 2, 3)),
		"eight bytes that are seven":          body(metadata, other(9, protowire.Fixed64Type, 1, 2, 3, 4, 5, 6, 7)),
		"a number that does not end":          body(metadata, other(9, protowire.VarintType, 0x80)),
		"metadata with a field that is cut":   body(field(listMetadata, append(claims(2, 2), '7'))),
		"metadata with the field number 0":    body(field(listMetadata, "\x02\x00")),
		"metadata with a group":               body(field(listMetadata, other(9, protowire.EndGroupType))),
		"metadata with a number that is cut":  body(field(listMetadata, other(9, protowire.VarintType, 0x80))),
		"the type is cut":                     append(slices.Clone(protobufMagic), field(unknownTypeMeta, claims(2, 5))...),
		"an encoding that nobody knows":       append(body(metadata), field(unknownEncoding, "gzip")...),
		"no message":                          body()[:len(body())-2],
		"another magic":                       append([]byte("k8t\x00"), body(metadata)[4:]...),
		"a broken field behind the list":      append(body(metadata), claims(9, 5)...),
		"a wire type of old behind the list":  append(body(metadata), other(9, protowire.StartGroupType)...),
		"two messages, the second of nothing": append(body(metadata), field(unknownRaw, "")...),
	} {
		if items, _, err := walkedItems(b); err == nil {
			t.Errorf("%s: passes with the items %q", name, items)
		}
	}
}

// A newer API server may send fields that nobody here knows.
func TestFieldsThatNobodyKnowsAreSkipped(t *testing.T) {
	unknown := slices.Concat(
		other(9, protowire.VarintType, 0x80, 1), other(10, protowire.Fixed32Type, 1, 2, 3, 4),
		other(11, protowire.Fixed64Type, 1, 2, 3, 4, 5, 6, 7, 8), field(12, "text"),
	)
	list := body(unknown, field(listItems, "one"), unknown, field(listMetadata, slices.Concat(unknown, field(2, "7"))), unknown, field(listItems, "two"))
	list = slices.Concat(list, unknown, field(unknownEncoding, ""))
	items, revision, err := walkedItems(list)
	if err != nil || revision != "7" || !slices.Equal(items, []string{"one", "two"}) {
		t.Errorf("items %q of revision %q, %v", items, revision, err)
	}
}

// What is wrong is said with the place, since nobody can look at the body afterwards.
func TestBrokenProtobufIsPlaced(t *testing.T) {
	_, _, err := walkedItems(body(metadata, claims(listItems, 50), []byte("x")))
	if err == nil || !strings.Contains(err.Error(), "after byte ") || !strings.Contains(err.Error(), "longer than its message") {
		t.Errorf("the error is %v", err)
	}
}

// A broken object of any kind is named, as far as it goes, and is no object.
func TestBrokenObjectsAreNamed(t *testing.T) {
	meta := field(1, slices.Concat(field(1, "cart"), field(3, "shop")))
	for kind := range decoders {
		o, err := Object(kind, MediaProtobuf, append(slices.Clone(meta), claims(2, 100)...))
		var broken *kube.DecodeError
		if !errors.As(err, &broken) || broken.Ref != (kube.Ref{Kind: kind, Namespace: "shop", Name: "cart"}) || o != nil {
			t.Errorf("%s: %v, %v", kind, o, err)
		}
	}
}
