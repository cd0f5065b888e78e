package kubetest

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/routesrv/routesrv/kube"
	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

const protobufType = "application/vnd.kubernetes.protobuf"

// codec is the encoder of a real API server.
var codec = func() *protobuf.Serializer {
	scheme := runtime.NewScheme()
	utilruntime.Must(corev1.AddToScheme(scheme))
	utilruntime.Must(discoveryv1.AddToScheme(scheme))
	utilruntime.Must(networkingv1.AddToScheme(scheme))
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	return protobuf.NewSerializer(scheme, scheme)
}()

// EncodeProtobuf returns the body of a list of a built-in kind, built from JSON objects. It fails if an object does not fit its
// type.
func EncodeProtobuf(kind kube.Kind, revision kube.Revision, items [][]byte) ([]byte, error) {
	return encodeProtobuf(kind, listMeta(revision), items)
}

// encodeObjects is EncodeProtobuf for stored objects; it encodes each object once instead of for each list.
func encodeObjects(kind kube.Kind, meta metav1.ListMeta, objects []*object) ([]byte, error) {
	size := 0
	for _, o := range objects {
		o.encode.Do(func() { o.item, _ = marshalItem(kind, o.json) })
		if o.item == nil {
			return nil, fmt.Errorf("%v has no protobuf form", o.ref)
		}
		size += len(o.item) + 6
	}
	head, err := meta.Marshal()
	if err != nil {
		return nil, err
	}
	raw := make([]byte, 0, size+len(head)+6)
	raw = protowire.AppendBytes(protowire.AppendTag(raw, 1, protowire.BytesType), head)
	for _, o := range objects {
		raw = protowire.AppendBytes(protowire.AppendTag(raw, 2, protowire.BytesType), o.item)
	}
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: apiVersion(kind), Kind: string(kind) + "List"}, Raw: raw}
	body, err := unknown.Marshal()
	return append([]byte("k8s\x00"), body...), err
}

// marshalItem encodes one item of a list.
func marshalItem(kind kube.Kind, text []byte) ([]byte, error) {
	switch kind {
	case kube.KindIngress:
		return marshalTyped(text, &networkingv1.Ingress{})
	case kube.KindService:
		return marshalTyped(text, &corev1.Service{})
	case kube.KindEndpoints:
		//lint:ignore SA1019 deprecated and still served
		return marshalTyped(text, &corev1.Endpoints{})
	case kube.KindEndpointSlice:
		return marshalTyped(text, &discoveryv1.EndpointSlice{})
	case kube.KindSecret:
		return marshalTyped(text, &corev1.Secret{})
	default:
		return nil, fmt.Errorf("kind %q has no protobuf form", kind)
	}
}

func marshalTyped(text []byte, o interface{ Marshal() ([]byte, error) }) ([]byte, error) {
	if err := json.Unmarshal(text, o); err != nil {
		return nil, err
	}
	return o.Marshal()
}

func encodeProtobuf(kind kube.Kind, meta metav1.ListMeta, items [][]byte) ([]byte, error) {
	var (
		list runtime.Object
		err  error
	)
	switch kind {
	case kube.KindIngress:
		l := &networkingv1.IngressList{ListMeta: meta}
		l.Items, err = typed[networkingv1.Ingress](items)
		list = l
	case kube.KindService:
		l := &corev1.ServiceList{ListMeta: meta}
		l.Items, err = typed[corev1.Service](items)
		list = l
	case kube.KindEndpoints:
		l := &corev1.EndpointsList{ListMeta: meta}
		//lint:ignore SA1019 deprecated and still served
		l.Items, err = typed[corev1.Endpoints](items)
		list = l
	case kube.KindEndpointSlice:
		l := &discoveryv1.EndpointSliceList{ListMeta: meta}
		l.Items, err = typed[discoveryv1.EndpointSlice](items)
		list = l
	case kube.KindSecret:
		l := &corev1.SecretList{ListMeta: meta}
		l.Items, err = typed[corev1.Secret](items)
		list = l
	default:
		return nil, fmt.Errorf("kind %q has no protobuf form", kind)
	}
	if err != nil {
		return nil, err
	}
	gv, err := schema.ParseGroupVersion(apiVersion(kind))
	if err != nil {
		return nil, err
	}
	list.GetObjectKind().SetGroupVersionKind(gv.WithKind(string(kind) + "List"))
	return marshal(list)
}

func typed[T any](items [][]byte) ([]T, error) {
	out := make([]T, len(items))
	for i, item := range items {
		if err := json.Unmarshal(item, &out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func marshal(o runtime.Object) ([]byte, error) {
	var b bytes.Buffer
	if err := codec.Encode(o, &b); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// status returns an answer with the Status object, in the requested encoding.
func status(s metav1.Status, asProtobuf bool) answer {
	s.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	s.Status = metav1.StatusFailure
	if asProtobuf {
		if body, err := marshal(&s); err == nil {
			return answer{int(s.Code), protobufType, body}
		}
	}
	body, _ := json.Marshal(s) // a struct of strings and numbers
	return answer{int(s.Code), "application/json", body}
}
