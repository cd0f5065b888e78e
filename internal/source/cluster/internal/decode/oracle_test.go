package decode

import (
	"bytes"
	"encoding/base64"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/routesrv/routesrv/kube"
)

// oracles decode with the types of k8s.io/api, and take from them what an object keeps.
var oracles = map[kube.Kind]func(raw []byte) (kube.Object, error){
	kube.KindIngress:       oracleIngress,
	kube.KindService:       oracleService,
	kube.KindEndpoints:     oracleEndpoints,
	kube.KindEndpointSlice: oracleEndpointSlice,
	kube.KindSecret:        oracleSecret,
}

func oracleMeta(m *metav1.ObjectMeta) kube.Meta {
	annotations := maps.Clone(m.Annotations)
	delete(annotations, kube.LastAppliedAnnotation)
	slim := kube.Meta{Namespace: m.Namespace, Name: m.Name, Annotations: kube.PairsOf(annotations), Labels: kube.PairsOf(m.Labels)}
	if !m.CreationTimestamp.IsZero() {
		slim.Created = m.CreationTimestamp.Unix()
	}
	slim.Changed = kube.LastChange(func(yield func(time.Time, string) bool) {
		for _, f := range m.ManagedFields {
			if f.Subresource == "" && f.Time != nil && !yield(f.Time.Time, f.Manager) {
				return
			}
		}
	})
	return slim
}

func oracleIngress(raw []byte) (kube.Object, error) {
	var in networkingv1.Ingress
	if err := in.Unmarshal(raw); err != nil {
		return nil, err
	}
	spec := &kube.IngressSpec{IngressClassName: deref(in.Spec.IngressClassName), DefaultBackend: oracleBackend(in.Spec.DefaultBackend)}
	for _, t := range in.Spec.TLS {
		spec.TLS = append(spec.TLS, kube.TLS{Hosts: t.Hosts, SecretName: t.SecretName})
	}
	for _, r := range in.Spec.Rules {
		rule := kube.IngressRule{Host: r.Host, HTTP: r.HTTP != nil}
		if r.HTTP != nil {
			for _, p := range r.HTTP.Paths {
				rule.Paths = append(rule.Paths, kube.IngressPath{Path: p.Path, PathType: string(deref(p.PathType)), Backend: oracleBackend(&p.Backend)})
			}
		}
		spec.Rules = append(spec.Rules, rule)
	}
	return &kube.Ingress{Meta: oracleMeta(&in.ObjectMeta), Spec: spec}, nil
}

func oracleBackend(b *networkingv1.IngressBackend) *kube.IngressBackend {
	switch {
	case b == nil:
		return nil
	case b.Service == nil:
		return &kube.IngressBackend{}
	default:
		return &kube.IngressBackend{Service: b.Service.Name, PortName: b.Service.Port.Name, PortNumber: int(b.Service.Port.Number)}
	}
}

func oracleService(raw []byte) (kube.Object, error) {
	var in corev1.Service
	if err := in.Unmarshal(raw); err != nil {
		return nil, err
	}
	o := &kube.Service{Namespace: in.Namespace, Name: in.Name, Type: string(in.Spec.Type), ExternalName: in.Spec.ExternalName}
	for _, p := range in.Spec.Ports {
		target := kube.NumberPort(int(p.TargetPort.IntVal))
		if p.TargetPort.Type == intstr.String {
			target = kube.NamePort(p.TargetPort.StrVal)
		}
		o.Ports = append(o.Ports, kube.ServicePort{Name: p.Name, Port: int(p.Port), TargetPort: target})
	}
	return o, nil
}

func oracleEndpoints(raw []byte) (kube.Object, error) {
	//lint:ignore SA1019 deprecated and still served
	var in corev1.Endpoints
	if err := in.Unmarshal(raw); err != nil {
		return nil, err
	}
	o := &kube.Endpoints{Namespace: in.Namespace, Name: in.Name}
	for _, s := range in.Subsets {
		sub := kube.Subset{NotReady: len(s.NotReadyAddresses), Ports: make([]kube.EndpointPort, 0, len(s.Ports))}
		for _, a := range s.Addresses {
			sub.Addresses = append(sub.Addresses, a.IP)
		}
		for _, p := range s.Ports {
			sub.Ports = append(sub.Ports, kube.EndpointPort{
				Name: p.Name, Port: int(p.Port), Protocol: string(p.Protocol), AppProtocol: deref(p.AppProtocol),
			})
		}
		o.Subsets = append(o.Subsets, sub)
	}
	return o, nil
}

func oracleEndpointSlice(raw []byte) (kube.Object, error) {
	var in discoveryv1.EndpointSlice
	if err := in.Unmarshal(raw); err != nil {
		return nil, err
	}
	o := &kube.EndpointSlice{
		Namespace: in.Namespace, Name: in.Name, Service: in.Labels[kube.ServiceNameLabel],
		NoPorts: in.Ports == nil, Ports: make([]kube.EndpointPort, 0, len(in.Ports)),
	}
	for _, p := range in.Ports {
		o.Ports = append(o.Ports, kube.EndpointPort{
			Name: deref(p.Name), Port: int(deref(p.Port)), Protocol: string(deref(p.Protocol)), AppProtocol: deref(p.AppProtocol),
		})
	}
	for _, e := range in.Endpoints {
		s := kube.SliceEndpoint{
			Zone: deref(e.Zone), Ready: e.Conditions.Ready == nil || *e.Conditions.Ready,
			Terminating: deref(e.Conditions.Terminating), NoAddress: len(e.Addresses) == 0,
		}
		if !s.NoAddress {
			s.Address = e.Addresses[0]
		}
		o.Endpoints = append(o.Endpoints, s)
	}
	return o, nil
}

func oracleSecret(raw []byte) (kube.Object, error) {
	var in corev1.Secret
	if err := in.Unmarshal(raw); err != nil {
		return nil, err
	}
	return &kube.Secret{
		Namespace: in.Namespace, Name: in.Name, Type: string(in.Type),
		Cert: base64.StdEncoding.EncodeToString(in.Data["tls.crt"]), Key: base64.StdEncoding.EncodeToString(in.Data["tls.key"]),
	}, nil
}

func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// FuzzObject: what both decode is the same object. Either may refuse what is broken in a field that the other does not read.
func FuzzObject(f *testing.F) {
	for kind, makeOne := range kindsOfAPI() {
		for seed := range int64(3) {
			o := makeOne()
			filler(seed).Fill(o)
			raw, err := o.Marshal()
			if err != nil {
				f.Fatal(err)
			}
			f.Add(string(kind), raw)
			f.Add(string(kind), append(bytes.Clone(raw), raw...)) // its messages come twice, and are merged
		}
	}
	var shared Decoder
	f.Fuzz(func(t *testing.T, kind string, raw []byte) {
		oracle := oracles[kube.Kind(kind)]
		if oracle == nil {
			return
		}
		before := bytes.Clone(raw)
		got, err := new(Decoder).Object(kube.Kind(kind), MediaProtobuf, raw)
		if again, err2 := shared.Object(kube.Kind(kind), MediaProtobuf, raw); !cmp.Equal(got, again) || (err == nil) != (err2 == nil) {
			t.Fatalf("after other objects: %+v, %v; alone %+v, %v", again, err2, got, err)
		}
		want, wrong := oracle(raw)
		if err != nil || wrong != nil {
			return
		}
		clear(raw) // the object has nothing of it
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("-want +got\n%s\n%x", d, before)
		}
	})
}

// Messages of one field in any order and number are merged, as in the types of k8s.io/api, also if their elements outgrow the memory that
// the first of them has asked for.
func TestMessagesInPartsAreMerged(t *testing.T) {
	for kind, makeOne := range kindsOfAPI() {
		for seed := range uint64(300) {
			r := rand.New(rand.NewPCG(seed, 1))
			var parts [][]byte
			for range 1 + r.IntN(3) {
				o := makeOne()
				filler(int64(r.Uint64())).Fill(o)
				raw, err := o.Marshal()
				if err != nil {
					t.Fatal(err)
				}
				parts = append(parts, split(t, raw)...)
			}
			r.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
			raw := bytes.Join(parts, nil)
			want, err := oracles[kind](raw)
			if err != nil {
				t.Fatal(err)
			}
			got, err := new(Decoder).Object(kind, MediaProtobuf, raw)
			if d := cmp.Diff(want, got); err != nil || d != "" {
				t.Fatalf("%s, seed %d: %v, -want +got\n%s", kind, seed, err, d)
			}
		}
	}
}

// split returns the fields of a message.
func split(t *testing.T, raw []byte) (parts [][]byte) {
	for len(raw) > 0 {
		_, _, n := protowire.ConsumeField(raw)
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		parts, raw = append(parts, raw[:n]), raw[n:]
	}
	return parts
}

// Every field that is read has its wire type, or the object is refused.
func TestFieldsOfAnotherWireTypeAreRefused(t *testing.T) {
	number := func(field protowire.Number) []byte { return other(field, protowire.VarintType, 1) }
	for name, c := range map[string]struct {
		kind kube.Kind
		raw  []byte
	}{
		"metadata as a number": {kube.KindIngress, number(objectMetadata)},
		"name as a number":     {kube.KindService, field(objectMetadata, number(objectMetaName))},
		"time as a number":     {kube.KindIngress, field(objectMetadata, number(objectMetaCreated))},
		"key as a number":      {kube.KindIngress, field(objectMetadata, field(objectMetaLabels, number(mapKey)))},
		"subresource, too":     {kube.KindIngress, field(objectMetadata, field(objectMetaManagedFields, number(managedSubresource)))},
		"manager as a number":  {kube.KindIngress, field(objectMetadata, field(objectMetaManagedFields, number(managedManager)))},
		"spec as a number":     {kube.KindIngress, number(ingressSpec)},
		"host as a number":     {kube.KindIngress, field(ingressSpec, field(ingressSpecRules, number(ingressRuleHost)))},
		"port as a text":       {kube.KindService, field(serviceSpec, field(serviceSpecPorts, field(servicePortPort, "80")))},
		"type of a target":     {kube.KindService, field(serviceSpec, field(serviceSpecPorts, field(servicePortTarget, field(intOrStringType, "1"))))},
		"name of a target":     {kube.KindService, field(serviceSpec, field(serviceSpecPorts, field(servicePortTarget, number(intOrStringString))))},
		"ready as a text":      {kube.KindEndpointSlice, field(sliceEndpoints, field(endpointConditions, field(conditionReady, "yes")))},
		"address as a number":  {kube.KindEndpointSlice, field(sliceEndpoints, number(endpointAddresses))},
		"second address, too":  {kube.KindEndpointSlice, field(sliceEndpoints, append(field(endpointAddresses, "10.0.0.1"), number(endpointAddresses)...))},
		"address that is cut":  {kube.KindEndpoints, field(endpointsSubsets, field(subsetNotReady, claims(addressIP, 9)))},
		"data as a number":     {kube.KindSecret, number(secretData)},
	} {
		if o, err := new(Decoder).Object(c.kind, MediaProtobuf, c.raw); err == nil || o != nil {
			t.Errorf("%s: %+v, %v", name, o, err)
		}
	}
}

// Changed names the newest entry that is not about a subresource. An encoder may omit empty fields.
func TestLastChangeIsThatOfTheNewestEntry(t *testing.T) {
	at := func(seconds byte) []byte { return field(managedTime, []byte{8, seconds}) }
	manager := func(name string) []byte { return field(managedManager, name) }
	for _, c := range []struct {
		entries [][]byte
		want    string
	}{
		{nil, ""},
		{[][]byte{manager("a")}, ""},
		{[][]byte{append(manager("a"), at(5)...)}, "1970-01-01T00:00:05Z a"},
		{[][]byte{append(manager("a"), at(5)...), append(at(9), manager("b")...), append(manager("c"), at(7)...)}, "1970-01-01T00:00:09Z b"},
		{[][]byte{append(manager("a"), at(5)...), slices.Concat(manager("b"), at(9), field(managedSubresource, "s"))}, "1970-01-01T00:00:05Z a"},
		{[][]byte{slices.Concat(manager("b"), at(9), field(managedSubresource, ""))}, "1970-01-01T00:00:09Z b"},
	} {
		var meta []byte
		for _, e := range c.entries {
			meta = append(meta, field(objectMetaManagedFields, e)...)
		}
		o, err := new(Decoder).Object(kube.KindIngress, MediaProtobuf, field(objectMetadata, meta))
		if err != nil || o.(*kube.Ingress).Changed != c.want {
			t.Errorf("%q: %+v, %v; want %q", c.entries, o, err, c.want)
		}
	}
}

// kindsOfAPI returns a constructor for each kind that has a protobuf form.
func kindsOfAPI() map[kube.Kind]func() stored {
	return map[kube.Kind]func() stored{
		kube.KindIngress: func() stored { return &networkingv1.Ingress{} },
		kube.KindService: func() stored { return &corev1.Service{} },
		//lint:ignore SA1019 deprecated and still served
		kube.KindEndpoints:     func() stored { return &corev1.Endpoints{} },
		kube.KindEndpointSlice: func() stored { return &discoveryv1.EndpointSlice{} },
		kube.KindSecret:        func() stored { return &corev1.Secret{} },
	}
}
