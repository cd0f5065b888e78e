package decode

import (
	"errors"
	"slices"

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

// decoders decode the protobuf form of the kinds that have one. They return what [kube.DecodeJSON] returns for the JSON form of the
// same object. They read only the fields that an object keeps: the types of k8s.io/api would allocate ten times as much, for fields
// that are dropped at once.
var decoders = map[kube.Kind]func(t *kube.Texts, raw []byte) (kube.Object, error){
	kube.KindIngress:       decodeIngress,
	kube.KindService:       decodeService,
	kube.KindEndpoints:     decodeEndpoints,
	kube.KindEndpointSlice: decodeEndpointSlice,
	kube.KindSecret:        decodeSecret,
}

// HasProtobuf reports whether the kind has a protobuf form. Custom resources have none.
func HasProtobuf(kind kube.Kind) bool { return decoders[kind] != nil }

// Decoder decodes objects, one after the other. Strings that many of them have, such as keys and zones, are in memory only once. The
// zero value is ready. It is not safe for concurrent use.
type Decoder struct {
	texts kube.Texts
	json  kube.Decoder

	servicePorts  recent[kube.ServicePort]
	endpointPorts recent[kube.EndpointPort]
}

// Object decodes one object. For protobuf, raw is the message without its envelope, and the kind must have a protobuf form. The error
// is a *[kube.DecodeError] if it can name the object. The result keeps no reference to raw.
func (d *Decoder) Object(kind kube.Kind, media string, raw []byte) (kube.Object, error) {
	if media != MediaProtobuf {
		return d.json.JSON(kind, raw)
	}
	decode := decoders[kind]
	if decode == nil {
		return nil, &kube.DecodeError{Ref: kube.Ref{Kind: kind}, Err: errors.New("it has no protobuf form")}
	}
	d.texts.Begin()
	o, err := decode(&d.texts, raw)
	if err != nil {
		id, _ := identityOf(raw) // as far as it is readable
		return nil, &kube.DecodeError{Ref: kube.Ref{Kind: kind, Namespace: id.namespace, Name: id.name}, Err: err}
	}
	d.texts.Done()
	switch o := o.(type) {
	case *kube.Service:
		o.Ports = d.servicePorts.share(o.Ports)
	case *kube.EndpointSlice:
		o.Ports = d.endpointPorts.share(o.Ports)
	}
	return o, nil
}

// recent are the last lists that differ, for objects to share: most services have one of a few lists of ports.
type recent[T comparable] struct {
	lists [8][]T
	next  int
}

// share returns a recent list that is equal to this one, or else this one.
func (r *recent[T]) share(list []T) []T {
	if len(list) == 0 {
		return list
	}
	for _, known := range r.lists {
		if slices.Equal(known, list) {
			return known
		}
	}
	r.lists[r.next] = list
	r.next = (r.next + 1) % len(r.lists)
	return list
}
