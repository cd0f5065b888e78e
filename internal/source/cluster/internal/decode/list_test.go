package decode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/routesrv/routesrv/internal/kubetest"
	"github.com/routesrv/routesrv/kube"
)

// ingress is the type of the lists that are walked.
var ingress = Type{Kind: kube.KindIngress, APIVersion: "networking.k8s.io/v1"}

// windowOn is a window on a body.
func windowOn(r io.Reader) *Window {
	w := &Window{}
	w.Reset(r, 1<<40)
	return w
}

type walked struct {
	Version, More string
	Items         []string
}

// walkedJSON walks the list through a large window and through one that is smaller than anything in it, as it comes from
// a slow network. Both have to give the same.
func walkedJSON(body []byte) (walked, error) {
	w, err := walkedThrough(windowOn(bytes.NewReader(body)))
	small := &Window{buf: make([]byte, 0, 1)}
	small.Reset(iotest.OneByteReader(bytes.NewReader(body)), 1<<40)
	again, errAgain := walkedThrough(small)
	if !cmp.Equal(w, again) || (err == nil) != (errAgain == nil) {
		panic(fmt.Sprintf("%q: through a large window %v, %v, through a small one %v, %v", body, w, err, again, errAgain))
	}
	return w, err
}

func walkedThrough(body *Window) (walked, error) {
	var (
		w    walked
		head head
	)
	err := walkJSON(body, &head, func(raw []byte) { w.Items = append(w.Items, string(raw)) })
	w.Version, w.More = string(head.resourceVersion), string(head.more)
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
		`{"items":[1,]}`, `{"items":[1 2]}`, `{"items":[01]}`, `{"items":[1.]}`, `{"items":[+1]}`, `{"items":["\x"]}`, "{\"items\":[\"\x01\"]}",
		`{"items":[tru]}`, `{"items":[nul}`, `{"items":[]}}`, `{"items":[]} x`, `{"items":[],}`, `{items:[]}`, `{"items" []}`,
		`{"items":[1],"Items":[2]}`, `{"metadata":{},"metadata":{}}`, `{"items":[{]}}`,
		`{"items":[` + strings.Repeat("[", maxDepth-1) + strings.Repeat("]", maxDepth-1) + `]}`,
	} {
		if got, err := walkedJSON([]byte(in)); err == nil {
			t.Errorf("%.60s passes: %v", in, got)
		}
	}
}

// What a window has at once may end anywhere in an escape sequence, and so may a body.
func TestEscapesAtTheEndOfAWindow(t *testing.T) {
	const escaped = `\u00e4`
	for n := range len(escaped) + 1 {
		before := `{"items":["` + strings.Repeat("x", windowSize-len(`{"items":["`)-n)
		whole := before + escaped + `"]}`
		w, err := walkedThrough(windowOn(strings.NewReader(whole)))
		if err != nil || len(w.Items) != 1 || !strings.HasSuffix(w.Items[0], escaped+`"`) {
			t.Errorf("%d bytes of an escape sequence at the end of a window: %v", n, err)
		}
		if _, err := walkedThrough(windowOn(strings.NewReader(whole[:windowSize]))); err == nil {
			t.Errorf("a body that ends %d bytes into an escape sequence passes", n)
		}
	}
}

func TestTakesJSONAsDeepAsTheStandardLibrary(t *testing.T) {
	in := `{"items":[` + strings.Repeat("[", maxDepth-2) + strings.Repeat("]", maxDepth-2) + `]}`
	if _, err := walkedJSON([]byte(in)); err != nil || !json.Valid([]byte(in)) {
		t.Errorf("walk says %v", err)
	}
}

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
		if err != nil && (strings.Contains(err.Error(), "twice")) {
			return // the standard library lets the last one win
		}
		var list struct {
			Metadata *struct{ ResourceVersion, Continue string }
			Items    []json.RawMessage
		}
		wantErr := json.Unmarshal(body, &list)
		if wantErr == nil && string(bytes.TrimSpace(body)) == "null" {
			wantErr = fmt.Errorf("no list")
		}
		if (err != nil) != (wantErr != nil) {
			t.Fatalf("%q: walk says %v, encoding/json %v", body, err, wantErr)
		}
		if err != nil {
			return
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
	body, err := kubetest.EncodeProtobuf(kube.KindIngress, 7, [][]byte{
		[]byte(`{"metadata":{"name":"a","namespace":"n","annotations":{"k":"v"},"managedFields":[{"manager":"m"}]},"spec":{"rules":[{"host":"h"}]}}`),
		[]byte(`{"metadata":{"name":"b"},"spec":{}}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func TestWalksProtobuf(t *testing.T) {
	var head head
	var names []string
	err := walkProtobuf(windowOn(bytes.NewReader(sample(t))), "IngressList", &head, func(raw []byte) {
		o, err := new(Decoder).Object(kube.KindIngress, MediaProtobuf, raw)
		if err != nil {
			t.Error(err)
			return
		}
		names = append(names, o.Ref().String())
	})
	if err != nil || string(head.resourceVersion) != "7" || cmp.Diff(names, []string{"Ingress n/a", "Ingress b"}) != "" {
		t.Errorf("got revision %s, items %v, error %v", head.resourceVersion, names, err)
	}
}

// A window that is smaller than an item grows to the item and no further.
func TestAWindowGrowsToTheLargestItemOnly(t *testing.T) {
	large := fmt.Sprintf(`{"metadata":{"name":"a","annotations":{"x":%q}}}`, strings.Repeat("x", 3*windowSize))
	var items [][]byte
	for range 100 {
		items = append(items, []byte(large), []byte(`{"metadata":{"name":"b"}}`))
	}
	protobuf, err := kubetest.EncodeProtobuf(kube.KindIngress, 7, items)
	if err != nil {
		t.Fatal(err)
	}
	for media, body := range map[string][]byte{MediaProtobuf: protobuf, MediaJSON: kubetest.EncodeJSON(kube.KindIngress, 7, items)} {
		w, n := windowOn(iotest.HalfReader(bytes.NewReader(body))), 0
		revision, err := List(media, w, ingress, func([]byte) { n++ })
		if err != nil || n != len(items) || revision != 7 {
			t.Errorf("%s: %d items of revision %d, %v", media, n, revision, err)
		}
		if cap(w.buf) > 16*windowSize {
			t.Errorf("%s: the window has %d bytes for items of %d", media, cap(w.buf), len(large))
		}
	}
}

func TestRefusesProtobufThatIsNoWholeList(t *testing.T) {
	whole := sample(t)
	for n := range len(whole) - 4 { // the last four are two empty fields behind the list
		for _, size := range []int{1, windowSize} {
			w := &Window{buf: make([]byte, 0, size)}
			w.Reset(bytes.NewReader(whole[:n]), 1<<40)
			if walkProtobuf(w, "IngressList", &head{}, func([]byte) {}) == nil {
				t.Errorf("the first %d of %d bytes pass", n, len(whole))
			}
		}
	}
	if walkProtobuf(windowOn(bytes.NewReader(whole)), "ServiceList", &head{}, func([]byte) {}) == nil {
		t.Error("another kind passes")
	}
	if walkProtobuf(windowOn(bytes.NewReader(append(bytes.Clone(whole), whole[4:]...))), "IngressList", &head{}, func([]byte) {}) == nil {
		t.Error("two lists in one pass")
	}
}

func TestAnObjectInBrokenProtobufIsNamed(t *testing.T) {
	raw := []byte{0x0a, 6, 0x0a, 1, 'a', 0x1a, 1, 'n', 0x12, 200}
	_, err := new(Decoder).Object(kube.KindIngress, MediaProtobuf, raw)
	d, ok := err.(*kube.DecodeError) //nolint:errorlint // the type itself is the claim
	if !ok || d.Ref != (kube.Ref{Kind: kube.KindIngress, Namespace: "n", Name: "a"}) {
		t.Errorf("error %v", err)
	}
}

func FuzzWalkProtobuf(f *testing.F) {
	f.Add(sample(f))
	f.Add([]byte("k8s\x00"))
	f.Fuzz(func(t *testing.T, body []byte) {
		_, _ = List(MediaProtobuf, windowOn(bytes.NewReader(body)), ingress, func(raw []byte) {
			for kind := range decoders {
				if o, err := new(Decoder).Object(kind, MediaProtobuf, raw); err == nil && o.Ref().Kind != kind {
					t.Errorf("%s decodes to %v", kind, o.Ref())
				}
			}
		})
		_ = Status(body)
	})
}
