package decode

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"github.com/routesrv/routesrv/kube"
)

// ingress is the kind of the lists that are walked.
const ingress = kube.KindIngress

type walked struct {
	Version, More string
	Items         []string
}

func walkedJSON(body []byte) (walked, error) {
	var (
		w    walked
		head head
	)
	// As it comes from a slow network, through a window that is smaller than anything in it.
	walker := &Walker{in: bufio.NewReader(iotest.OneByteReader(bytes.NewReader(body)))}
	err := walker.walkJSON(&head, func(raw []byte) { w.Items = append(w.Items, string(raw)) })
	w.Version, w.More = head.resourceVersion, head.more
	if err != nil {
		w = walked{}
	}
	return w, err
}

func TestWalksJSON(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want walked
	}{
		{`{"kind":"IngressList","metadata":{"resourceVersion":"7","continue":"x"},"items":[{"a":1}, null ,[]]}`, walked{"7", "x", []string{`{"a":1}`, `null`, `[]`}}},
		{`{"ITEMS":[ "]}" , -1.5e+3 ],"Metadata":{"ResourceVersion":"\u0037"},"x":{"items":[1]}}`, walked{"7", "", []string{`"]}"`, `-1.5e+3`}}},
		{`{"it\u0065ms":[{}]}`, walked{"", "", []string{`{}`}}},
		{` {"items":null,"metadata":null} `, walked{}},
		{`{"items":[],"metadata":{"resourceVersion":null,"x":[{"y":[]}]}}`, walked{}},
		{`{}`, walked{}},
	} {
		got, err := walkedJSON([]byte(tt.in))
		if d := cmp.Diff(tt.want, got); d != "" || err != nil {
			t.Errorf("%s: %v\n%s", tt.in, err, d)
		}
	}
}

func TestRefusesJSONThatIsNoWholeList(t *testing.T) {
	const whole = `{"metadata":{"resourceVersion":"7"},"items":[{"a":["\u00e4\n",true,false,null,0.5]},{}]}`
	for n := range len(whole) {
		if _, err := walkedJSON([]byte(whole[:n])); err == nil {
			t.Errorf("%s passes", whole[:n])
		}
	}
	for _, in := range []string{
		`null`, `[]`, `"x"`, `{"items":{}}`, `{"items":"x"}`, `{"items":1}`, `{"metadata":1}`, `{"metadata":{"resourceVersion":7}}`,
		`{"items":[1,]}`, `{"items":[,1]}`, `{"items":[1 2]}`, `{"items":[nul}`, `{"items":[]}}`, `{"items":[]} x`, `{"items":[],}`, `{items:[]}`,
		`{"items" []}`, `{"items":[1],"Items":[2]}`, `{"metadata":{},"metadata":{}}`, `{"items":[{]}}`, `{"kind":7}`, `{"":}`,
	} {
		if got, err := walkedJSON([]byte(in)); err == nil {
			t.Errorf("%.60s passes: %v", in, got)
		}
	}
}

// The list is split without a look into its items: one that is broken is passed on, and its decoder refuses it.
func TestABrokenItemInJSONIsAnItem(t *testing.T) {
	got, err := walkedJSON([]byte(`{"items":[{"a":01}, {"b":tru}, {"c":"\x"}, 7]}`))
	want := []string{`{"a":01}`, `{"b":tru}`, `{"c":"\x"}`, `7`}
	if d := cmp.Diff(want, got.Items); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
	for _, item := range got.Items {
		if o, err := Object(kube.KindIngress, MediaJSON, []byte(item)); err == nil {
			t.Errorf("%s is decoded to %v", item, o)
		}
	}
}

// FuzzWalkJSON: what encoding/json takes for a list is split as it says, and no part of it passes for a whole.
func FuzzWalkJSON(f *testing.F) {
	for _, s := range []string{
		`{"metadata":{"resourceVersion":"7"},"items":[{"a":["\u00e4\n",true,false,null,-0.5e-1]},{}]}`,
		`{"items":null}`, `{"Items":[1],"it\u0065ms":[2]}`, `{"x":"aaaaaaaa\\\"bbbbbbbb"}`, ` { } `, `{"metadata":{"continue":"\ud83d\ude00"}}`,
		"{\"\u017ftems\":[1]}", `{"items":[[[[[[]]]]]]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := walkedJSON(body)
		if err != nil && (strings.Contains(err.Error(), "duplicate field")) {
			return // the standard library lets the last one win
		}
		var list struct {
			Kind, APIVersion string
			Metadata         *struct{ ResourceVersion, Continue string }
			Items            []json.RawMessage
		}
		if json.Unmarshal(body, &list) != nil || string(bytes.TrimSpace(body)) == "null" {
			return
		}
		if err != nil {
			t.Fatalf("%q: walk says %v", body, err)
		}
		if whole := bytes.TrimSpace(body); len(whole) > 1 {
			if _, err := walkedJSON(whole[:len(whole)-1]); err == nil {
				t.Errorf("%q passes without its last byte", body)
			}
		}
		var want walked
		if list.Metadata != nil {
			want.Version, want.More = list.Metadata.ResourceVersion, list.Metadata.Continue
		}
		for _, i := range list.Items {
			want.Items = append(want.Items, string(i))
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%q: -want +got\n%s", body, d)
		}
	})
}

// sample is a list in protobuf with two items.
func sample(t testing.TB) []byte {
	t.Helper()
	_, body := encoded(t,
		`{"metadata":{"name":"a","namespace":"n","annotations":{"k":"v"},"managedFields":[{"manager":"m"}]},"spec":{"rules":[{"host":"h"}]}}`,
		`{"metadata":{"name":"b"},"spec":{}}`)
	return body
}

// encoded returns a list of Ingresses of revision 7 in both media types.
func encoded(t testing.TB, items ...string) (asJSON, asProtobuf []byte) {
	t.Helper()
	list := networkingv1.IngressList{
		TypeMeta: metav1.TypeMeta{Kind: "IngressList", APIVersion: "networking.k8s.io/v1"}, ListMeta: metav1.ListMeta{ResourceVersion: "7"},
		Items: make([]networkingv1.Ingress, len(items)),
	}
	for i, item := range items {
		if err := json.Unmarshal([]byte(item), &list.Items[i]); err != nil {
			t.Fatal(err)
		}
	}
	asJSON, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	if err := protobuf.NewSerializer(nil, nil).Encode(&list, &buf); err != nil {
		t.Fatal(err)
	}
	return asJSON, buf.Bytes()
}

func TestWalksProtobuf(t *testing.T) {
	var head head
	var names []string
	err := walkedFrames(bytes.NewReader(sample(t)), &head, func(raw []byte) {
		o, err := Object(kube.KindIngress, MediaProtobuf, raw)
		if err != nil {
			t.Error(err)
			return
		}
		names = append(names, o.Ref().String())
	})
	if err != nil || head.resourceVersion != "7" || cmp.Diff(names, []string{"Ingress n/a", "Ingress b"}) != "" {
		t.Errorf("got revision %s, items %v, error %v", head.resourceVersion, names, err)
	}
}

// walkedFrames walks a list in protobuf, and again as it comes from a slow network.
func walkedFrames(r io.Reader, head *head, item func([]byte)) error {
	w := &Walker{in: bufio.NewReaderSize(r, 64)}
	return w.walkProtobuf(head, item)
}

// An item that is larger than the buffer takes as much memory as it has, and no more.
func TestAWalkerGrowsToTheLargestItemOnly(t *testing.T) {
	large := fmt.Sprintf(`{"metadata":{"name":"a","annotations":{"x":%q}}}`, strings.Repeat("x", 200_000))
	var items []string
	for range 100 {
		items = append(items, large, `{"metadata":{"name":"b"}}`)
	}
	asJSON, asProtobuf := encoded(t, items...)
	for media, body := range map[string][]byte{MediaProtobuf: asProtobuf, MediaJSON: asJSON} {
		w, n := &Walker{}, 0
		revision, err := w.List(media, iotest.HalfReader(bytes.NewReader(body)), ingress, func([]byte) { n++ })
		if err != nil || n != len(items) || revision != 7 {
			t.Errorf("%s: %d items of revision %d, %v", media, n, revision, err)
		}
		if cap(w.buf) > keptBuffer || cap(w.buf) < len(large) {
			t.Errorf("%s: the buffer has %d bytes for items of %d", media, cap(w.buf), len(large))
		}
	}
}

func TestRefusesProtobufThatIsNoWholeList(t *testing.T) {
	whole := sample(t)
	for n := range len(whole) - 4 { // the last four are two empty fields behind the list
		if walkedFrames(iotest.OneByteReader(bytes.NewReader(whole[:n])), &head{}, func([]byte) {}) == nil {
			t.Errorf("the first %d of %d bytes pass", n, len(whole))
		}
	}
	if _, err := new(Walker).List(MediaProtobuf, bytes.NewReader(whole), services, func([]byte) {}); err == nil {
		t.Error("another kind passes")
	}
	if walkedFrames(bytes.NewReader(append(bytes.Clone(whole), whole[4:]...)), &head{}, func([]byte) {}) == nil {
		t.Error("two lists in one pass")
	}
}

func TestAnObjectInBrokenProtobufIsNamed(t *testing.T) {
	raw := []byte{0x0a, 6, 0x0a, 1, 'a', 0x1a, 1, 'n', 0x12, 200}
	_, err := Object(kube.KindIngress, MediaProtobuf, raw)
	d, ok := err.(*kube.DecodeError) //nolint:errorlint // the type itself is the claim
	if !ok || d.Ref != (kube.Ref{Kind: kube.KindIngress, Namespace: "n", Name: "a"}) {
		t.Errorf("error %v", err)
	}
}

func FuzzWalkProtobuf(f *testing.F) {
	f.Add(sample(f))
	f.Add([]byte("k8s\x00"))
	f.Fuzz(func(t *testing.T, body []byte) {
		_, _ = new(Walker).List(MediaProtobuf, bytes.NewReader(body), ingress, func(raw []byte) {
			for kind := range decoders {
				if o, err := Object(kind, MediaProtobuf, raw); err == nil && o.Ref().Kind != kind {
					t.Errorf("%s decodes to %v", kind, o.Ref())
				}
			}
		})
		_ = Status(body)
	})
}
