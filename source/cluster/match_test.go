package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/source/cluster/internal/decode"
)

// Walking a list that is known allocates the same, however many objects are in it.
func TestWalkingAKnownListAllocatesTheSameAtAnySize(t *testing.T) {
	for _, media := range []string{decode.MediaProtobuf, decode.MediaJSON} {
		t.Run(media, func(t *testing.T) {
			var allocs []float64
			for _, n := range []int{10, 1000, 10000} {
				all := networkingv1.IngressList{
					TypeMeta: metav1.TypeMeta{Kind: "IngressList", APIVersion: "networking.k8s.io/v1"}, ListMeta: metav1.ListMeta{ResourceVersion: "7"},
				}
				for i := range n {
					all.Items = append(all.Items, networkingv1.Ingress{
						ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("i%06d", i), Namespace: "n", Annotations: map[string]string{"k": "v"}},
						Spec:       networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{Host: "h"}}},
					})
				}
				var text bytes.Buffer
				err := json.NewEncoder(&text).Encode(all)
				if media == decode.MediaProtobuf {
					text.Reset()
					err = protobuf.NewSerializer(nil, nil).Encode(&all, &text)
				}
				if err != nil {
					t.Fatal(err)
				}
				l := &list{resource: (&Config{}).resources()[0]}
				source, w := bytes.NewReader(nil), &decode.Walker{}
				var zipped bytes.Buffer
				zw := gzip.NewWriter(&zipped)
				_, _ = zw.Write(text.Bytes())
				_ = zw.Close()
				var zip gzip.Reader
				pass := func() {
					source.Reset(zipped.Bytes())
					if err := zip.Reset(source); err != nil {
						t.Fatal(err)
					}
					m := newMatcher(l, l.content, media)
					if _, err := w.List(media, &zip, l.Kind, m.add); err != nil {
						t.Fatal(err)
					}
					l.adopt(m.listing())
				}
				pass()
				if len(l.items) != n {
					t.Fatalf("%d items, want %d", len(l.items), n)
				}
				allocs = append(allocs, testing.AllocsPerRun(5, pass))
			}
			if allocs[2] > allocs[0]+2 || allocs[2] > 30 {
				t.Errorf("%v allocations for 10, 1,000 and 10,000 objects", allocs)
			}
			t.Logf("%v allocations", allocs)
		})
	}
}

// Of several items with one key the last one stays, as in a stream of events.
func TestSortKeepsTheLastOfSeveral(t *testing.T) {
	thing := func(namespace, name, version string) item {
		return item{Object: &kube.Service{Namespace: namespace, Name: name, ExternalName: version}}
	}
	var got []string
	for _, i := range sortItems([]item{
		thing("b", "x", "1"), thing("a", "x", "1"), thing("b", "x", "2"), thing("a-b", "x", "1"), thing("b", "a", "1"), thing("b", "x", "3"),
	}) {
		got = append(got, i.Ref().Namespace+"/"+i.Ref().Name+" "+i.Object.(*kube.Service).ExternalName)
	}
	want := []string{"a-b/x 1", "a/x 1", "b/a 1", "b/x 3"}
	if !slices.Equal(got, want) || sortItems(nil) != nil {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestInOrder: keys rise, in the order of etcd, and none is there twice.
func TestInOrder(t *testing.T) {
	items := func(names ...string) (all []item) {
		for _, name := range names {
			namespace, name, _ := strings.Cut(name, "/")
			all = append(all, item{Bad: &kube.BadObject{Ref: kube.Ref{Kind: kube.KindService, Namespace: namespace, Name: name}}})
		}
		return all
	}
	for _, c := range []struct {
		names []string
		want  bool
	}{
		{nil, true}, {[]string{"a/a"}, true}, {[]string{"a/a", "a/b", "b/a"}, true}, {[]string{"a-b/a", "a/a"}, true},
		{[]string{"a/b", "a/a"}, false}, {[]string{"a/a", "a/a"}, false}, {[]string{"a/a", "a-b/a"}, false}, {[]string{"a/a", "b/a", "a/b"}, false},
	} {
		if got := inOrder(items(c.names...)); got != c.want {
			t.Errorf("%q: %v, want %v", c.names, got, c.want)
		}
	}
}
