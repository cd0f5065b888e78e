package decode

import (
	"bytes"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// protobufMagic begins every protobuf body of the API; a runtime.Unknown follows.
var protobufMagic = []byte("k8s\x00")

// Field numbers of the messages that are walked. All lists of built-in kinds have the same two fields.
const (
	unknownTypeMeta, unknownRaw, unknownEncoding = 1, 2, 3
	listMetadata, listItems                      = 1, 2
)

// Status decodes the body of an error answer: a Status object in either encoding, as far as it is readable, or any
// text, which becomes the message.
func Status(body []byte) (status metav1.Status) {
	var u runtime.Unknown
	if raw, ok := bytes.CutPrefix(body, protobufMagic); ok && u.Unmarshal(raw) == nil && u.Kind == "Status" {
		_ = status.Unmarshal(u.Raw) // keep whatever was readable
	} else if json.Unmarshal(body, &status) != nil {
		status.Message = string(body)
	}
	return status
}
