package kubetest

import (
	"encoding/json"
	"fmt"

	"github.com/routesrv/routesrv/kube"
	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const protobufType = "application/vnd.kubernetes.protobuf"

// EncodeProtobuf returns the body of a list of a built-in kind, built from JSON objects. It fails if an object does not fit its
// type.
func EncodeProtobuf(kind kube.Kind, revision kube.Revision, items [][]byte) ([]byte, error) {
	encoded := make([][]byte, len(items))
	for i, item := range items {
		var err error
		if encoded[i], err = marshalItem(kind, item); err != nil {
			return nil, err
		}
	}
	return encodeList(kind, listMeta(revision), encoded)
}

// encodeObjects is EncodeProtobuf for stored objects; it encodes each object once instead of for each list.
func encodeObjects(kind kube.Kind, meta metav1.ListMeta, objects []*object) ([]byte, error) {
	encoded := make([][]byte, len(objects))
	for i, o := range objects {
		o.encode.Do(func() { o.item, _ = marshalItem(kind, o.json) })
		if encoded[i] = o.item; o.item == nil {
			return nil, fmt.Errorf("%v has no protobuf form", o.ref)
		}
	}
	return encodeList(kind, meta, encoded)
}

// encodeList builds a list: all kinds of them have the metadata as field 1 and the items as field 2.
func encodeList(kind kube.Kind, meta metav1.ListMeta, items [][]byte) ([]byte, error) {
	head, err := meta.Marshal()
	if err != nil {
		return nil, err
	}
	size := len(head) + 6
	for _, item := range items {
		size += len(item) + 6
	}
	raw := protowire.AppendBytes(protowire.AppendTag(make([]byte, 0, size), 1, protowire.BytesType), head)
	for _, item := range items {
		raw = protowire.AppendBytes(protowire.AppendTag(raw, 2, protowire.BytesType), item)
	}
	return envelope(apiVersion(kind), string(kind)+"List", raw)
}

// envelope adds the type to a message, as the API does.
func envelope(apiVersion, kind string, raw []byte) ([]byte, error) {
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: apiVersion, Kind: kind}, Raw: raw}
	body, err := unknown.Marshal()
	return append([]byte("k8s\x00"), body...), err
}

// marshalItem encodes one item of a list.
func marshalItem(kind kube.Kind, text []byte) ([]byte, error) {
	var o interface{ Marshal() ([]byte, error) }
	switch kind {
	case kube.KindIngress:
		o = &networkingv1.Ingress{}
	case kube.KindService:
		o = &corev1.Service{}
	case kube.KindEndpoints:
		//lint:ignore SA1019 deprecated and still served
		o = &corev1.Endpoints{}
	case kube.KindEndpointSlice:
		o = &discoveryv1.EndpointSlice{}
	case kube.KindNamespace:
		o = &corev1.Namespace{}
	default:
		return nil, fmt.Errorf("kind %q has no protobuf form", kind)
	}
	if err := json.Unmarshal(text, o); err != nil {
		return nil, err
	}
	return o.Marshal()
}

// status returns an answer with the Status object, in the requested encoding.
func status(s metav1.Status, asProtobuf bool) answer {
	s.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	s.Status = metav1.StatusFailure
	if asProtobuf {
		if raw, err := s.Marshal(); err == nil {
			body, _ := envelope("v1", "Status", raw) // two fields
			return answer{int(s.Code), protobufType, body}
		}
	}
	body, _ := json.Marshal(s) // a struct of strings and numbers
	return answer{int(s.Code), "application/json", body}
}
