// Package decode decodes what the Kubernetes API sends: lists, streams of events and single objects, in JSON and,
// except for streams, in protobuf. It makes no request, logs nothing and has no clock.
//
// A [Walker] walks a list without decoding its items, so that the caller need not decode items that it already knows.
// [Events] does the same for the stream of a watch. [Object] decodes one item of either; only it turns bytes into
// objects.
//
// The package does not trust its input. A body that ends early, is of another kind or lies about its lengths is an
// error, and costs no more memory than its size.
package decode

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/routesrv/routesrv/kube"
)

// Type is a kind of objects with its API version.
type Type struct {
	Kind       kube.Kind
	APIVersion string
}

// listKind returns the kind of a list of the objects.
func (t Type) listKind() string { return string(t.Kind) + "List" }

// Media types that the API sends.
const (
	MediaProtobuf = "application/vnd.kubernetes.protobuf"
	MediaJSON     = "application/json"
)

// decoders decode the protobuf form of the kinds that have one.
var decoders = map[kube.Kind]func(raw []byte) (kube.Object, error){
	kube.KindIngress:   decoder[networkingv1.Ingress](slimIngress),
	kube.KindService:   decoder[corev1.Service](slimService),
	kube.KindNamespace: decoder[corev1.Namespace](slimNamespace),
	kube.KindConfigMap: decoder[corev1.ConfigMap](slimConfigMap),
	//lint:ignore SA1019 deprecated and still served
	kube.KindEndpoints:     decoder[corev1.Endpoints](slimEndpoints),
	kube.KindEndpointSlice: decoder[discoveryv1.EndpointSlice](slimEndpointSlice),
}

// decoder returns a function that decodes an object and takes from it what is kept.
func decoder[T any, P interface {
	*T
	Unmarshal(raw []byte) error
}](slim func(*T) kube.Object) func([]byte) (kube.Object, error) {
	return func(raw []byte) (kube.Object, error) {
		var o T
		if err := P(&o).Unmarshal(raw); err != nil {
			return nil, err
		}
		return slim(&o), nil
	}
}

// HasProtobuf reports whether the kind has a protobuf form. Custom resources have none.
func HasProtobuf(kind kube.Kind) bool { return decoders[kind] != nil }

// Object decodes one object. For protobuf, raw is the message without its envelope, and the kind must have a protobuf form. The error
// is a *[kube.DecodeError] if it can name the object. The result keeps no reference to raw.
func Object(kind kube.Kind, media string, raw []byte) (kube.Object, error) {
	if media != MediaProtobuf {
		return kube.DecodeJSON(kind, raw)
	}
	decode := decoders[kind]
	if decode == nil {
		return nil, &kube.DecodeError{Ref: kube.Ref{Kind: kind}, Err: errors.New("it has no protobuf form")}
	}
	o, err := decode(raw)
	if err != nil {
		var m metav1.PartialObjectMetadata
		_ = m.Unmarshal(raw) // as far as it is readable
		return nil, &kube.DecodeError{Ref: kube.Ref{Kind: kind, Namespace: m.Namespace, Name: m.Name}, Err: err}
	}
	return o, nil
}
