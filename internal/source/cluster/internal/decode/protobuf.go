package decode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// protobufMagic begins every protobuf body of the API; a runtime.Unknown follows.
var protobufMagic = []byte("k8s\x00")

// Field numbers of the messages that are walked. All lists of built-in kinds have the same two fields.
const (
	unknownTypeMeta, unknownRaw, unknownEncoding = 1, 2, 3
	typeMetaAPIVersion, typeMetaKind             = 1, 2
	listMetadata, listItems                      = 1, 2
	listMetaResourceVersion, listMetaContinue    = 2, 3
	objectMetadata                               = 1
	objectMetaName, objectMetaNamespace          = 1, 3
	objectMetaResourceVersion                    = 6
)

// typeOf returns the type that a body claims to have.
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

// envelope splits a protobuf body of the API into the type that it claims and the message.
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

// Status decodes the body of an error answer: a Status object in either encoding, as far as it is readable, or any
// text, which becomes the message.
func Status(body []byte) (status metav1.Status) {
	if _, kind, raw, err := envelope(body); err == nil && kind == "Status" {
		_ = status.Unmarshal(raw) // keep whatever was readable
	} else if json.Unmarshal(body, &status) != nil {
		status.Message = string(body)
	}
	return status
}

// identity is the name, namespace and revision of an object.
type identity struct {
	name, namespace, resourceVersion string
}

// identityOf reads the identity of an object, up to the point where the message is broken.
func identityOf(message []byte) (id identity, err error) {
	err = fields(message, func(field protowire.Number, value []byte) error {
		if field != objectMetadata {
			return nil
		}
		return fields(value, func(field protowire.Number, value []byte) error {
			switch field {
			case objectMetaName:
				id.name = string(value)
			case objectMetaNamespace:
				id.namespace = string(value)
			case objectMetaResourceVersion:
				id.resourceVersion = string(value)
			}
			return nil
		})
	})
	return id, err
}
