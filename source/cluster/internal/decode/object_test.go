package decode

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/routesrv/routesrv/kube"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"
)

// filler makes random objects as an API server could have stored them.
func filler(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(.3).NumElements(0, 3).Funcs(
		func(m *metav1.ObjectMeta, c randfill.Continue) {
			c.FillNoCustom(m)
			m.CreationTimestamp, m.DeletionTimestamp = metav1.Unix(1e9, 0), nil
			if c.Bool() {
				m.Annotations = map[string]string{kube.LastAppliedAnnotation: "x", "k": c.String(0)}
			}
		},
		func(p *intstr.IntOrString, c randfill.Continue) {
			if c.Bool() {
				*p = intstr.FromString(c.String(0))
			} else {
				*p = intstr.FromInt32(c.Int31())
			}
		},
		func(f *metav1.ManagedFieldsEntry, c randfill.Continue) {
			c.FillNoCustom(f)
			f.Subresource = ""
			if c.Bool() {
				f.Subresource = "status"
			}
			if f.Time = nil; c.Bool() {
				at := metav1.Unix(int64(c.Int31()), 0)
				f.Time = &at
			}
		},
		func(f *metav1.FieldsV1, _ randfill.Continue) { f.SetRawString(`{"f:x":{}}`) },
		func(*metav1.Time, randfill.Continue) {},
	)
}

// stored is a type of the API that has both forms.
type stored interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

func TestProtobufAndJSONGiveTheSameObject(t *testing.T) {
	for kind, makeOne := range kindsOfAPI() {
		t.Run(string(kind), func(t *testing.T) {
			for seed := range int64(300) {
				filled, o := makeOne(), makeOne()
				filler(seed).Fill(filled)
				raw, err := filled.Marshal()
				if err != nil {
					t.Fatal(err)
				}
				// What an API server sends as JSON comes out of etcd, where it is protobuf: no empty lists that are not nil.
				if err := o.Unmarshal(raw); err != nil {
					t.Fatal(err)
				}
				text, err := json.Marshal(o)
				if err != nil {
					t.Fatal(err)
				}
				want, err := kube.DecodeJSON(kind, text)
				if err != nil {
					t.Fatalf("%s: %v", text, err)
				}
				got, err := Object(kind, MediaProtobuf, raw)
				if err != nil {
					t.Fatal(err)
				}
				clear(raw) // the object has nothing of it
				if d := cmp.Diff(want, got); d != "" {
					t.Fatalf("seed %d: -JSON +protobuf\n%s\n%s", seed, d, text)
				}
				if again, err := Object(kind, MediaJSON, text); err != nil || !cmp.Equal(want, again) {
					t.Fatalf("seed %d: compact %v: %s", seed, err, cmp.Diff(want, again))
				}
			}
		})
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
	}
}
